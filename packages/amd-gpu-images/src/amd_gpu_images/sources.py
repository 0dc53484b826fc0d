"""Decompress the content of a layer piece by piece while it is read; nothing is written to disk.

The first bytes decide about compression, because media types of images may be wrong. zstd uses the system's libzstd, as
Python has zstd only since 3.14. dpkg and rpm need libzstd, so every distribution with debs or rpms has it.
"""

from __future__ import annotations

import ctypes
import os
import zlib
from bz2 import BZ2Decompressor
from collections.abc import Callable, Iterator
from functools import partial
from gzip import GzipFile
from io import FileIO
from lzma import FORMAT_XZ, LZMADecompressor, LZMAError
from typing import Any, Protocol

from amd_gpu_images.bounds import Counter, ImageError

PIECE = 1 << 18
# Bytes of compressed content to read at once.
INPUT = 1 << 17
# xz -9 needs 65 MiB; a header can ask for 4 GiB.
MOST_MEMORY_OF_XZ = 80 * 1024 * 1024
LIBRARY = "libzstd.so.1"
LONGEST_MAGIC = 6
# The exceptions that a damaged layer causes.
DAMAGES = (EOFError, OSError, ValueError, zlib.error, LZMAError)


class Readable(Protocol):
    """An open file, or a stream."""

    def read(self, size: int, /) -> bytes | None:
        """Return at most `size` bytes."""


class Beginning:
    """A file whose start has already been read. It counts the bytes that are read from it."""

    def __init__(self, start: bytes, file: Readable, counter: Counter) -> None:
        self._start = start
        self._file = file
        self._counter = counter

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes."""
        if self._start:
            start, self._start = self._start[:size], self._start[size:]
            return start
        content = self._file.read(size) or b""
        self._counter.take(len(content))
        return content

    def rewind(self) -> int | None:
        """Rewind a plain file and return its descriptor; None if it is not a plain file."""
        if not isinstance(self._file, FileIO):
            return None
        self._file.seek(0)
        self._start = b""
        return self._file.fileno()


class Source:
    """A layer that arrives piece by piece."""

    def __init__(self, pieces: Iterator[bytes], counter: Counter) -> None:
        self._pieces = pieces
        self._counter = counter
        self._rest = b""

    def next(self) -> bytes:
        """Return the next piece, b"" at the end."""
        piece, self._rest = self._rest or next(self._pieces, b""), b""
        self._counter.advance(len(piece))
        return piece

    def skip(self, size: int) -> int:
        """Skip up to `size` bytes; return how many there were."""
        left = size
        while left and (piece := self.next()):
            self._rest = piece[left:]
            left -= len(piece) - len(self._rest)
        return size - left


class PlainFile:
    """A layer in a plain file, in which content can be skipped without reading it."""

    def __init__(self, descriptor: int, counter: Counter) -> None:
        self._descriptor = descriptor
        self._counter = counter
        self._at = 0
        self._size = os.fstat(descriptor).st_size

    def next(self) -> bytes:
        """Return the next piece, b"" at the end."""
        piece = os.pread(self._descriptor, PIECE, self._at)
        self._advance(len(piece))
        return piece

    def skip(self, size: int) -> int:
        """Skip up to `size` bytes; return how many there were."""
        return self._advance(max(min(size, self._size - self._at), 0))

    def _advance(self, size: int) -> int:
        self._at += size
        self._counter.advance(size)
        return size


def open_source(stream: Readable, counter: Counter) -> Source | PlainFile:
    """Open the content of a layer. ImageError if it is compressed with zstd, and libzstd is missing."""
    start = stream.read(LONGEST_MAGIC) or b""
    file = Beginning(start, stream, counter)
    decompress = next((opener for magic, opener in _DECOMPRESS_BY_MAGIC.items() if start.startswith(magic)), pieces_of)
    descriptor = file.rewind() if decompress is pieces_of else None
    if descriptor is not None:
        return PlainFile(descriptor, counter)
    return Source(decompress(file), counter)


def pieces_of(file: Any) -> Iterator[bytes]:
    """Yield the content of an open file in pieces."""
    return iter(partial(file.read, PIECE), b"")


def _streams(file: Beginning, make: Callable[[], Any]) -> Iterator[bytes]:
    """Decompress streams that follow one another, as parallel bzip2 and xz write them."""
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


_DECOMPRESS_BY_MAGIC: dict[bytes, Callable[[Beginning], Iterator[bytes]]] = {
    # GzipFile calls only `read`.
    b"\x1f\x8b": lambda file: pieces_of(GzipFile(fileobj=file, mode="rb")),  # type: ignore[call-overload]
    b"\x28\xb5\x2f\xfd": lambda file: zstd_pieces(file, PIECE),
    b"\xfd7zXZ\x00": lambda file: _streams(file, lambda: LZMADecompressor(FORMAT_XZ, memlimit=MOST_MEMORY_OF_XZ)),
    b"BZh": lambda file: _streams(file, BZ2Decompressor),
}


class Buffer(ctypes.Structure):
    """ZSTD_inBuffer and ZSTD_outBuffer of zstd.h: the address, the size, and how much has been read or written."""

    _fields_ = (("content", ctypes.c_char_p), ("size", ctypes.c_size_t), ("position", ctypes.c_size_t))


def zstd_pieces(file: Readable, size: int) -> Iterator[bytes]:
    """Return the content of a zstd file in pieces of at most `size` bytes; ImageError, also during iteration."""
    return _pieces(_load(), file, size)


def _load() -> Any:
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise ImageError(
            "a layer is compressed with zstd, and this machine has no libzstd",
            hint="install it, or copy the image with 'skopeo copy --dest-compress-format=gzip'",
        ) from error
    library.ZSTD_createDStream.restype = ctypes.c_void_p
    library.ZSTD_freeDStream.argtypes = [ctypes.c_void_p]
    library.ZSTD_decompressStream.restype = ctypes.c_size_t
    library.ZSTD_decompressStream.argtypes = [ctypes.c_void_p, ctypes.POINTER(Buffer), ctypes.POINTER(Buffer)]
    library.ZSTD_isError.restype, library.ZSTD_isError.argtypes = ctypes.c_uint, [ctypes.c_size_t]
    library.ZSTD_getErrorName.restype, library.ZSTD_getErrorName.argtypes = ctypes.c_char_p, [ctypes.c_size_t]
    return library


def _pieces(library: Any, file: Readable, size: int) -> Iterator[bytes]:
    stream = library.ZSTD_createDStream()
    output = ctypes.create_string_buffer(size)
    left = 0
    try:
        while content := file.read(INPUT):
            given = Buffer(content, len(content), 0)
            is_full = False
            # Output that does not fit into the buffer stays in the stream.
            while given.position < given.size or is_full:
                made = Buffer(ctypes.cast(output, ctypes.c_char_p), size, 0)
                left = library.ZSTD_decompressStream(stream, ctypes.byref(made), ctypes.byref(given))
                if library.ZSTD_isError(left):
                    raise ImageError(f"a layer is damaged: {library.ZSTD_getErrorName(left).decode()}")
                is_full = made.position == size
                if made.position:
                    yield ctypes.string_at(output, made.position)
    finally:
        library.ZSTD_freeDStream(stream)
    if left:
        raise EOFError("it ends too early")
