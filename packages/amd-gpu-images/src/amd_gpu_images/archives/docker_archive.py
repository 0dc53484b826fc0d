"""Read an image from an archive of `docker save` or `podman save`, once from front to end."""

from __future__ import annotations

import os
import tarfile
import zlib
from lzma import LZMAError
from tarfile import ReadError
from typing import IO, Any

from amd_gpu_images.archives.tar_header import EXTENSIONS
from amd_gpu_images.archives.tar_layer import read_layer
from amd_gpu_images.bounds import LARGEST_LAYER, MOST_MANIFEST_LAYERS, Counter, ImageError, Reading
from amd_gpu_images.content.configuration import LARGEST_IMAGE_DOCUMENT, describe, parse_document
from amd_gpu_images.content.contents import Image, LayerContents
from amd_gpu_images.sources import PIECE, Readable, open_source
from amdgpu_discovery.errors import reason

# Limit for one archive: names, pax records, and maps of sparse files. A member has two or three KiB at most.
LARGEST_HEADERS = 16 * 1024 * 1024
MANIFEST = "manifest.json"
# Other files, from old versions of Docker, contain nothing of use.
NAMES = (".json", ".tar")
BLOBS = "blobs/"
LARGEST_HEADER = 1024 * 1024
# Layers, configurations, and the links that old versions of Docker add.
MOST_ARCHIVE_FILES = 5000
# Limit for all documents together; the rest of an archive is layers.
LARGEST_DOCUMENTS = 16 * 1024 * 1024


class ArchiveStream:
    """An archive stream that refuses to read more than the announced members and a limited amount of headers."""

    def __init__(self, stream: Readable, reading: Reading) -> None:
        self._source = open_source(stream, Counter(reading, is_shown=False))
        self._read = 0
        self._bound = LARGEST_HEADERS

    def read(self, _: int) -> bytes:
        """Return the next piece, b"" at the end. It may be longer or shorter than the requested size."""
        try:
            piece = self._source.next()
        except OSError as error:
            if error.errno is not None:
                raise
            # gzip and bz2 raise OSError without errno for a damaged stream.
            raise ReadError(str(error)) from error
        self._read += len(piece)
        # A piece that begins before the limit may end after it.
        if self._read - len(piece) > self._bound:
            raise ImageError("the headers of an archive are larger than any image needs")
        return piece

    def allow(self, size: int) -> None:
        """Raise the limit by the size of a member."""
        self._bound += size
        if self._bound > LARGEST_LAYER:
            raise ImageError("the files of an archive claim to be larger than 1 TiB")


def read_archive_file(path: str, reading: Reading) -> Image:
    """Return the image in an archive; ImageError."""
    try:
        with open(path, "rb") as file:
            return read_archive(file, path, reading)
    except OSError as error:
        raise ImageError(f"{path} cannot be read: {reason(error)}") from error


def read_archive(stream: Readable, name: str, reading: Reading) -> Image:
    """Return the image in a stream; `name` is its name in an ImageError."""
    parts = Parts()
    try:
        _read_members(ArchiveStream(stream, reading), parts, name, reading)
    except RecursionError as error:
        # tarfile recurses for each header that describes the next one.
        raise ImageError(f"{name} is not an archive of an image: it has too many headers for one member") from error
    except (tarfile.TarError, EOFError, IndexError, zlib.error, LZMAError, ValueError) as error:
        raise ImageError(f"{name} is not an archive of an image: {error}") from error
    return parts.combine(name)


def _read_members(stream: ArchiveStream, parts: Parts, name: str, reading: Reading) -> None:
    # tarfile calls only `read` of this stream.
    file: Any = stream
    with tarfile.open(fileobj=file, mode="r|", bufsize=PIECE, tarinfo=BoundedHeader) as archive:
        for count, member in enumerate(archive):
            if count > MOST_ARCHIVE_FILES:
                raise ImageError(f"{name} has more than {MOST_ARCHIVE_FILES} members, more than any image needs")
            archive.members = []  # type: ignore[attr-defined]  # typeshed leaves it out
            # The next header begins at `offset`.
            stream.allow(max(archive.offset - member.offset_data, 0))
            parts.add(archive, member, reading)


class BoundedHeader(tarfile.TarInfo):
    """A header that cannot make tarfile read an unlimited amount at once."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> BoundedHeader:
        """Parse a header; ReadError if it is larger than any name, or of a kind that no image has."""
        made = super().frombuf(buf, encoding, errors)
        _require_bounded(made)
        return made

    @classmethod
    def _frombuf(cls, buf: Any, encoding: Any, errors: Any, **options: Any) -> Any:
        # Python 3.13 and later releases of 3.11 and 3.12 parse headers with this method.
        made = super()._frombuf(buf, encoding, errors, **options)  # type: ignore[misc]
        _require_bounded(made)
        return made


def _require_bounded(made: tarfile.TarInfo) -> None:
    if ord(made.type) in EXTENSIONS and made.size > LARGEST_HEADER:
        raise tarfile.ReadError("a name in it is longer than 1 MiB")
    if made.type == tarfile.GNUTYPE_SPARSE:
        # No engine writes sparse files, and tarfile raises IndexError if the map of one is cut off.
        raise tarfile.ReadError("a member is a sparse file")


class Parts:
    """The documents and layers of an archive. The manifest, which lists the layers, may come last."""

    def __init__(self) -> None:
        self._documents: dict[str, bytes] = {}
        self._layers: dict[str, LayerContents] = {}
        self._targets_of_link: dict[str, str] = {}
        self._documents_size = 0

    def add(self, archive: tarfile.TarFile, member: tarfile.TarInfo, reading: Reading) -> None:
        """Read a member, which is a document or a layer."""
        if member.issym() or member.islnk():
            # Podman and old versions of Docker write a repeated layer as a link.
            self._targets_of_link[member.name] = os.path.normpath(
                os.path.join(os.path.dirname(member.name) if member.issym() else "", member.linkname)
            )
        elif member.isreg() and member.name.endswith(NAMES) | member.name.startswith(BLOBS):
            # extractfile returns a BufferedReader for a regular file.
            file: Any = archive.extractfile(member)
            start = file.peek(1)[:1]
            if start in (b"{", b"["):
                self._add_document(member, file)
            elif start:
                reading.layer = f"layer {len(self._layers) + 1}"
                self._layers[member.name] = read_layer(file, reading)

    def combine(self, name: str) -> Image:
        """Return the image that the manifest describes; ImageError."""
        manifest = self._manifest(name)
        configuration = parse_document(self._documents.get(str(manifest.get("Config")), b""), "the configuration")
        paths = manifest.get("Layers")
        paths = paths if isinstance(paths, list) else []
        if len(paths) > MOST_MANIFEST_LAYERS:
            raise ImageError(f"{name} has more than {MOST_MANIFEST_LAYERS} layers")
        return describe({}, {}, configuration).replace(layers=tuple(self._layer(path, name) for path in paths))

    def _add_document(self, member: tarfile.TarInfo, file: IO[bytes]) -> None:
        self._documents_size += member.size
        if member.size > LARGEST_IMAGE_DOCUMENT or self._documents_size > LARGEST_DOCUMENTS:
            raise ImageError("the documents of an archive are larger than any image needs")
        self._documents[member.name] = file.read()

    def _manifest(self, name: str) -> dict[str, Any]:
        if MANIFEST not in self._documents:
            raise ImageError(f"{name} has no {MANIFEST}", hint="write it with 'docker save' or 'podman save'")
        images = parse_document(b'{"images":' + self._documents[MANIFEST] + b"}", MANIFEST).get("images")
        if not isinstance(images, list) or len(images) != 1 or not isinstance(images[0], dict):
            raise ImageError(f"{name} has {len(images) if isinstance(images, list) else 'no'} images, not one")
        return images[0]

    def _layer(self, path: object, name: str) -> LayerContents:
        path = str(path)
        for _ in range(2):
            if path in self._layers:
                return self._layers[path]
            path = self._targets_of_link.get(path, path)
        raise ImageError(f"{name} lacks a layer that its manifest names")
