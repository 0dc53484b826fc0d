"""Read a layer with libarchive, whose functions in C are called directly: a Python object for each file costs more."""

from __future__ import annotations

from ctypes import (
    POINTER,
    byref,
    c_char_p,
    c_int,
    c_longlong,
    c_size_t,
    c_void_p,
    cast,
    create_string_buffer,
    string_at,
)

from libarchive import ffi
from libarchive.exception import ArchiveError
from libarchive.read import new_archive_read

from amd_ctk.image.bounds import STEP
from amd_ctk.image.contents import LayerContents
from amd_ctk.image.deep import ELF, targets_in_program
from amd_ctk.image.errors import ImageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from amd_ctk.image.bounds import Counter
    from amd_ctk.image.compression import Beginning

BLOCK = 1 << 18
# Of the names as they stand in the archive: no character set is guessed, and no name is lost.
OPTIONS = b"hdrcharset=BINARY"
# AE_IFREG of archive_entry.h; a hard link has no type of its own.
REGULAR_OR_LINK = (0o100000, 0)


def _function(name: str, restype: Any, *argtypes: Any) -> Any:
    """Return a function of libarchive as it is: libarchive-c's log what a hostile layer makes it warn of."""
    function = ffi.libarchive[f"archive_{name}"]
    function.restype, function.argtypes = restype, argtypes
    return function


next_header = _function("read_next_header2", c_int, c_void_p, c_void_p)
read_block = _function("read_data_block", c_int, c_void_p, POINTER(c_void_p), POINTER(c_size_t), POINTER(c_longlong))
set_options = _function("read_set_options", c_int, c_void_p, c_char_p)
pathname = _function("entry_pathname", c_char_p, c_void_p)
entry_size = _function("entry_size", c_longlong, c_void_p)
file_type = _function("entry_filetype", c_int, c_void_p)
error_string = _function("error_string", c_char_p, c_void_p)
new_entry = _function("entry_new", c_void_p)
free_entry = _function("entry_free", None, c_void_p)


def read(file: Beginning, compression: str, counter: Counter, deep: bool) -> LayerContents:
    """Return what a layer says; ImageError where it cannot be read."""
    layer = LayerContents()
    source = Source(file)
    entry = new_entry()
    try:
        with new_archive_read("tar", compression) as archive:
            set_options(archive, OPTIONS)
            source.open(archive)
            _read_names(archive, entry, layer, counter, deep=deep)
    except ArchiveError as error:
        raise ImageError(f"a layer is damaged: {error.msg}") from error
    except ValueError as error:
        raise ImageError(f"a layer is compressed with {compression}, which this libarchive cannot read") from error
    finally:
        free_entry(entry)
        if source.error:
            raise source.error
    return layer


class Source:
    """What libarchive reads: a file by its descriptor, in which it can skip, or a stream through a function."""

    def __init__(self, file: Beginning) -> None:
        self._file = file
        self._buffer = create_string_buffer(BLOCK)
        # libarchive calls it as long as the archive is open.
        self._callback = ffi.READ_CALLBACK(self._read)
        # What happened in the function, where ctypes would print and forget it.
        self.error: Exception | None = None

    def open(self, archive: int) -> None:
        """Open the archive; ArchiveError where it is none."""
        descriptor = self._file.rewound()
        if descriptor is not None:
            ffi.read_open_fd(archive, descriptor, BLOCK)
        else:
            ffi.read_open(archive, None, ffi.NO_OPEN_CB, self._callback, ffi.NO_CLOSE_CB)

    def _read(self, _archive: int, _context: int, place: Any) -> int:
        try:
            length = self._file.readinto(memoryview(self._buffer))
        except Exception as error:
            self.error = error
            return -1
        cast(place, POINTER(c_void_p))[0] = cast(self._buffer, c_void_p)
        return length


def _read_names(archive: int, entry: int, layer: LayerContents, counter: Counter, *, deep: bool) -> None:
    names = size = 0
    while (code := next_header(archive, entry)) != ffi.ARCHIVE_EOF:
        if code < ffi.ARCHIVE_WARN:
            raise ImageError(f"a layer is damaged: {_words(archive)}")
        names += 1
        size += max(entry_size(entry), 0)
        if names == STEP or size >= STEP * BLOCK:
            counter.count(names, size)
            names = size = 0
        name = pathname(entry) or b""
        if deep or b"gfx" in name or b".wh." in name:
            _add(archive, entry, name, layer, deep=deep)
    counter.count(names, size)


def _add(archive: int, entry: int, name: bytes, layer: LayerContents, *, deep: bool) -> None:
    if file_type(entry) in REGULAR_OR_LINK:
        found = _find_inside(archive) if deep else ()
        layer.add(name.decode("utf-8", "surrogateescape"), found)


def _find_inside(archive: int) -> set[str]:
    chunks = _blocks(archive)
    start = next(chunks, b"")
    return targets_in_program(_chain(start, chunks)) if start.startswith(ELF) else set()


def _chain(start: bytes, chunks: Iterator[bytes]) -> Iterator[bytes]:
    yield start
    yield from chunks


def _blocks(archive: int) -> Iterator[bytes]:
    """Yield the content of the current file, as libarchive has it in memory."""
    block, size, offset = c_void_p(), c_size_t(), c_longlong()
    while (code := read_block(archive, byref(block), byref(size), byref(offset))) != ffi.ARCHIVE_EOF:
        if code < ffi.ARCHIVE_WARN:
            raise ImageError(f"a layer is damaged: {_words(archive)}")
        yield string_at(block, size.value)


def _words(archive: int) -> str:
    return (error_string(archive) or b"it ends too early").decode("utf-8", "replace")
