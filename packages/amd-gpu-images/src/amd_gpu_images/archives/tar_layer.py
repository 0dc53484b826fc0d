"""Read the names in a layer, which is a tar archive. Nothing is unpacked, and no link is followed.

It parses the headers itself: calling a library for each name takes longer than `tar -tf` for the whole archive
(decision 32).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from zlib import adler32

from amd_gpu_images.archives.tar_header import (
    BLOCK,
    CHECKSUM,
    DIRECTORY,
    EXTENSIONS,
    HALF,
    HARD_LINK,
    KIND,
    LONG_NAME,
    NAME,
    PAX,
    PREFIX_START,
    REGULAR,
    SIZE,
    SPARSE,
    WITHOUT_CONTENT,
    expected_adler,
    full_name,
    has_checksum,
    parse_pax,
    parse_size,
    size_in,
)
from amd_gpu_images.bounds import Counter, ImageError, Reading
from amd_gpu_images.content.contents import LayerContents
from amd_gpu_images.content.deep import ELF, Programs
from amd_gpu_images.sources import DAMAGES, PlainFile, Readable, Source, open_source

# Limit for a long name or pax records, which are read as a whole.
LARGEST_EXTENSION = 1024 * 1024
# Limit per layer. GNU tar writes 90 bytes of pax for each file, and the largest layers have a million files.
LARGEST_EXTENSIONS = 128 * 1024 * 1024
# These bytes, in a GNU header of a sparse file and in its continuations, tell whether another continuation follows.
SPARSE_FOLLOWS, NEXT_SPARSE_FOLLOWS = 482, 504


def read_layer(file: Readable, reading: Reading) -> LayerContents:
    """Read a layer; ImageError if it cannot be read."""
    counter = Counter(reading)
    layer = TarLayer(open_source(file, counter), counter, deep=reading.deep).read()
    counter.keep(layer.kept)
    return layer


class TarLayer:
    """Reads one layer from front to end."""

    def __init__(self, source: Source | PlainFile, counter: Counter, *, deep: bool) -> None:
        self._source = source
        self._counter = counter
        self._deep = deep
        self._layer = LayerContents()
        self._programs = Programs()
        # Unused input begins at `_at`. If that is behind the end of the buffer, the bytes in between are to be skipped.
        self._buffer = b""
        self._at = 0
        # How many bytes before `_at` are padding, which may be missing at the end of an archive.
        self._padding = 0
        self._is_read = False
        # The name and size of the next file, from extension headers.
        self._name = b""
        self._size: int | None = None
        self._extensions = 0

    def read(self) -> LayerContents:
        """Return the contents of the layer; ImageError if it cannot be read."""
        try:
            while not self._is_read and self._fill():
                self._read_ordinary()
                if self._at + BLOCK <= len(self._buffer):
                    self._at += BLOCK
                    self._read_other(self._buffer[self._at - BLOCK : self._at])
        except DAMAGES as error:
            raise ImageError(f"a layer is damaged: {error}") from error
        return self._layer

    def _fill(self) -> bool:
        """Go to the next header; return whether there is one.

        An archive may lack the zeros that mark its end, and those that fill its last block: umoci writes such layers,
        and Docker and Podman accept them, as does Go's archive/tar.
        """
        beyond = self._at - len(self._buffer)
        if beyond > 0 and beyond - self._source.skip(beyond) > self._padding:
            raise EOFError("it ends within a file")
        rest = self._buffer[self._at :]
        while len(rest) < BLOCK and (piece := self._source.next()):
            rest += piece
        self._buffer, self._at, self._padding = rest, 0, 0
        if len(rest) < BLOCK and any(rest):
            raise EOFError("it ends within a header")
        return len(rest) >= BLOCK

    def _read_ordinary(self) -> None:
        """Read the headers in the buffer up to the first that is special, such as one with a prefix; most are not.

        A layer may have a million headers, so this does as little as possible for each.
        """
        if self._name or self._size is not None:
            return
        buffer, at, last = self._buffer, self._at, len(self._buffer) - BLOCK
        with_content = frozenset() if self._deep else REGULAR
        note = self._layer.hashes.append
        size, names = 0, 0
        while at <= last:
            header = buffer[at : at + BLOCK]
            if adler32(header) & HALF != expected_adler(header[CHECKSUM]) or header[PREFIX_START]:
                break
            kind, name = header[KIND], header[NAME]
            if kind in with_content:
                size = size_in(header[SIZE])
            elif kind in WITHOUT_CONTENT:
                size = 0
            else:
                break
            if kind != DIRECTORY:
                note(hash(name))
            # "in" first checks whether the word is a number, which takes longer than the search.
            if name.find(b"gfx") >= 0 or name.find(b".wh.") >= 0 or name.find(b"spirv") >= 0:
                self._add(name.partition(b"\0")[0], kind)
            at += BLOCK + size + -size % BLOCK
            names += 1
        self._counter.count(names)
        self._at = at - size - -size % BLOCK
        self._skip(size)

    def _read_other(self, header: bytes) -> None:
        """Read a header of any kind, and the content that follows it."""
        if not any(header):
            self._is_read = True
            return
        if not has_checksum(header):
            raise ValueError("a file has no valid header")
        kind, size = header[KIND], size_in(header[SIZE])
        if kind in EXTENSIONS:
            self._read_extension(kind, size)
            return
        self._counter.count(1)
        name, size = self._name or full_name(header), size if self._size is None else self._size
        self._name, self._size = b"", None
        if kind == SPARSE:
            self._skip_map(header)
        self._read_file(name, kind, 0 if kind in WITHOUT_CONTENT else size)

    def _read_file(self, name: bytes, kind: int, size: int) -> None:
        if not is_directory(name, kind):
            self._layer.note_path(as_text(name))
        found: set[str] = set()
        if self._deep and kind in REGULAR and self._starts_with(ELF, size):
            found = self._programs.targets_in(self._content(size))
            self._skip(0, -size % BLOCK)
        else:
            self._skip(size)
        self._add(name, kind, found)

    def _read_extension(self, kind: int, size: int) -> None:
        if size > LARGEST_EXTENSION:
            raise ValueError("a name in it is longer than 1 MiB")
        self._counter.count(1)
        self._extensions += size
        if self._extensions > LARGEST_EXTENSIONS:
            raise ImageError("the headers of a layer are larger than any image needs")
        content = b"".join(self._content(size))
        self._skip(0, -size % BLOCK)
        if kind == LONG_NAME:
            self._name = content.partition(b"\0")[0]
        elif kind == PAX:
            records = parse_pax(content)
            self._name = records.get(b"GNU.sparse.name") or records.get(b"path") or self._name
            if b"size" in records:
                self._size = parse_size(records[b"size"])

    def _skip_map(self, header: bytes) -> None:
        """Skip the continuation headers of a GNU sparse file, which locate its content."""
        follows = header[SPARSE_FOLLOWS]
        while follows:
            self._counter.count(1)
            block = b"".join(self._content(BLOCK))
            follows = block[NEXT_SPARSE_FOLLOWS]

    def _starts_with(self, word: bytes, size: int) -> bool:
        """Return whether the content of a file starts with this word."""
        self._buffer, self._at = self._buffer[self._at :], 0
        while len(self._buffer) < min(len(word), size) and (piece := self._source.next()):
            self._buffer += piece
        return size >= len(word) and self._buffer.startswith(word)

    def _content(self, size: int) -> Iterator[bytes]:
        self._counter.bound(size)
        while size:
            if self._at >= len(self._buffer):
                self._buffer, self._at = self._source.next(), 0
            piece = self._buffer[self._at : self._at + size]
            if not piece:
                raise EOFError("it ends within a file")
            self._at += len(piece)
            size -= len(piece)
            yield piece

    def _skip(self, size: int, padding: int | None = None) -> None:
        """Skip content and the padding of its last block."""
        self._padding = -size % BLOCK if padding is None else padding
        self._at += size + self._padding
        self._counter.bound(self._at - len(self._buffer))

    def _add(self, name: bytes, kind: int, found: Iterable[str] = ()) -> None:
        if is_directory(name, kind):
            self._layer.add_directory(as_text(name))
        elif kind in REGULAR or kind in (HARD_LINK, SPARSE):
            self._layer.add(as_text(name), found)


def is_directory(name: bytes, kind: int) -> bool:
    """Return whether a header is a directory. Old archives mark one only by a slash at the end of its name."""
    return kind == DIRECTORY or name.endswith(b"/")


def as_text(name: bytes) -> str:
    """Decode a name, keeping bytes that are not UTF-8."""
    return name.decode("utf-8", "surrogateescape")
