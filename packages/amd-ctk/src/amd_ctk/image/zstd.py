"""Decompress zstd with the system's libzstd, which Python has only from 3.14 on.

dpkg and rpm need the library, so every distribution with packages of either kind has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import (
    CDLL,
    POINTER,
    Structure,
    byref,
    c_char_p,
    c_size_t,
    c_uint,
    c_void_p,
    cast,
    create_string_buffer,
    string_at,
)
from typing import Any

from amd_ctk.image.bounds import ImageError
from amd_ctk.image.compression import Readable

LIBRARY = "libzstd.so.1"
INPUT = 1 << 17


class ZstdMissing(Exception):
    """There is no libzstd here."""


class Buffer(Structure):
    """ZSTD_inBuffer and ZSTD_outBuffer of zstd.h: where it is, its size, and how much of it was read or written."""

    _fields_ = (("content", c_char_p), ("size", c_size_t), ("position", c_size_t))


def zstd_pieces(file: Readable, size: int) -> Iterator[bytes]:
    """Return the content of a file in pieces of at most `size` bytes; ZstdMissing, and ImageError while it is read."""
    return _pieces(_load(), file, size)


def _load() -> Any:
    try:
        library = CDLL(LIBRARY)
    except OSError as error:
        raise ZstdMissing from error
    library.ZSTD_createDStream.restype = c_void_p
    library.ZSTD_freeDStream.argtypes = [c_void_p]
    library.ZSTD_decompressStream.restype = c_size_t
    library.ZSTD_decompressStream.argtypes = [c_void_p, POINTER(Buffer), POINTER(Buffer)]
    library.ZSTD_isError.restype, library.ZSTD_isError.argtypes = c_uint, [c_size_t]
    library.ZSTD_getErrorName.restype, library.ZSTD_getErrorName.argtypes = c_char_p, [c_size_t]
    return library


def _pieces(library: Any, file: Readable, size: int) -> Iterator[bytes]:
    stream = library.ZSTD_createDStream()
    output = create_string_buffer(size)
    left = 0
    try:
        while content := file.read(INPUT):
            given = Buffer(content, len(content), 0)
            is_full = False
            # What does not fit into the output stays in the stream.
            while given.position < given.size or is_full:
                made = Buffer(cast(output, c_char_p), size, 0)
                left = library.ZSTD_decompressStream(stream, byref(made), byref(given))
                if library.ZSTD_isError(left):
                    raise ImageError(f"a layer is damaged: {library.ZSTD_getErrorName(left).decode()}")
                is_full = made.position == size
                if made.position:
                    yield string_at(output, made.position)
    finally:
        library.ZSTD_freeDStream(stream)
    if left:
        raise EOFError("it ends too early")
