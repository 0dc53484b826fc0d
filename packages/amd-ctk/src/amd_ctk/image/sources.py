"""The content of a layer, decompressed piece by piece as it is read: nothing is written to disk."""

from __future__ import annotations

import os
import zlib
from bz2 import BZ2Decompressor
from collections.abc import Callable, Iterator
from gzip import GzipFile
from lzma import FORMAT_XZ, LZMADecompressor, LZMAError
from typing import Any

from amd_ctk.image.bounds import Counter, ImageError
from amd_ctk.image.compression import Beginning
from amd_ctk.image.zstd import ZstdMissing, zstd_pieces

PIECE = 1 << 18
# Of compressed content.
INPUT = 1 << 17
# xz -9 needs 65 MiB; a header can ask for 4 GiB.
MOST_MEMORY_OF_XZ = 80 * 1024 * 1024


class Source:
    """Pieces of a layer that come one after another."""

    def __init__(self, pieces: Iterator[bytes], counter: Counter) -> None:
        self._pieces = pieces
        self._counter = counter
        self._rest = b""

    def next(self) -> bytes:
        """Return the next piece, b"" at the end."""
        piece, self._rest = self._rest or next(self._pieces, b""), b""
        self._counter.pass_by(len(piece))
        return piece

    def skip(self, size: int) -> int:
        """Leave out some bytes; return how many there were."""
        left = size
        while left and (piece := self.next()):
            self._rest = piece[left:]
            left -= len(piece) - len(self._rest)
        return size - left


class PlainFile:
    """A layer that is a plain file, in which content is skipped without reading it."""

    def __init__(self, descriptor: int, counter: Counter) -> None:
        self._descriptor = descriptor
        self._counter = counter
        self._at = 0
        self._size = os.fstat(descriptor).st_size

    def next(self) -> bytes:
        """Return the next piece, b"" at the end."""
        piece = os.pread(self._descriptor, PIECE, self._at)
        self._pass_by(len(piece))
        return piece

    def skip(self, size: int) -> int:
        """Leave out some bytes; return how many there were."""
        return self._pass_by(max(min(size, self._size - self._at), 0))

    def _pass_by(self, size: int) -> int:
        self._at += size
        self._counter.pass_by(size)
        return size


def open_source(file: Beginning, compression: str, counter: Counter) -> Source | PlainFile:
    """Return the content of a layer; ImageError where nothing here can decompress it."""
    descriptor = file.rewound() if compression == "none" else None
    if descriptor is not None:
        return PlainFile(descriptor, counter)
    return Source(_OPENERS[compression](file), counter)


def damages() -> tuple[type[Exception], ...]:
    """Return what is raised where a layer is not what it should be."""
    return (EOFError, OSError, ValueError, zlib.error, LZMAError)


def _plain(file: Beginning) -> Iterator[bytes]:
    while piece := file.read(PIECE):
        yield piece


def _gzip(file: Beginning) -> Iterator[bytes]:
    with GzipFile(fileobj=file, mode="rb") as opened:  # type: ignore[call-overload]  # it calls read alone
        while piece := opened.read(PIECE):
            yield piece


def _bzip2(file: Beginning) -> Iterator[bytes]:
    return _streams(file, BZ2Decompressor)


def _xz(file: Beginning) -> Iterator[bytes]:
    return _streams(file, lambda: LZMADecompressor(FORMAT_XZ, memlimit=MOST_MEMORY_OF_XZ))


def _zstd(file: Beginning) -> Iterator[bytes]:
    try:
        return zstd_pieces(file, PIECE)
    except ZstdMissing as error:
        raise ImageError(
            "a layer is compressed with zstd, and this machine has no libzstd",
            hint="install it, or copy the image with 'skopeo copy --dest-compress-format=gzip'",
        ) from error


def _streams(file: Beginning, make: Callable[[], Any]) -> Iterator[bytes]:
    """Yield the content of streams that stand one behind the other, as bzip2 and xz write them on several cores."""
    decompressor = make()
    content = file.read(INPUT)
    while content or not decompressor.needs_input:
        if piece := decompressor.decompress(content, PIECE):
            yield piece
        content = b"" if not decompressor.needs_input else file.read(INPUT)
        if decompressor.eof:
            content = (decompressor.unused_data or file.read(INPUT)).lstrip(b"\0")
            if not content:
                return
            decompressor = make()
    raise EOFError("it ends too early")


_OPENERS = {"none": _plain, "gzip": _gzip, "bzip2": _bzip2, "xz": _xz, "zstd": _zstd}
