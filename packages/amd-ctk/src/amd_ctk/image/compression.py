"""How a layer is compressed: media types of images are not always right, its first bytes are."""

from __future__ import annotations

from io import FileIO
from typing import Protocol

from amd_ctk.image.bounds import Counter


class Readable(Protocol):
    """A file that is open, or a stream."""

    def read(self, size: int, /) -> bytes | None:
        """Return at most `size` bytes."""


MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ\x00": "xz", b"BZh": "bzip2"}
LONGEST_MAGIC = 6


def compression_of(start: bytes) -> str:
    """Return the compression of a file that begins like this, "none" for a plain one."""
    return next((name for magic, name in MAGIC.items() if start.startswith(magic)), "none")


class Beginning:
    """A file of which the start was read already, and what is read of it counted."""

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

    def rewound(self) -> int | None:
        """Return the descriptor of a plain file, which is at its beginning again; None if there is none."""
        if not isinstance(self._file, FileIO):
            return None
        self._file.seek(0)
        self._start = b""
        return self._file.fileno()
