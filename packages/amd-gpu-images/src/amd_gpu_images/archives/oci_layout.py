"""Read an image from an OCI image layout: index.json and blobs in a directory, from skopeo, umoci or buildah."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from io import FileIO
from typing import Any

from amd_gpu_images.archives.tar_layer import read_layer
from amd_gpu_images.bounds import MOST_MANIFEST_LAYERS, ImageError, Reading
from amd_gpu_images.content.configuration import LARGEST_IMAGE_DOCUMENT, describe, parse_document
from amd_gpu_images.content.contents import Image, LayerContents
from amdgpu_discovery.command_line.json_parts import object_at, objects_at, texts_at
from amdgpu_discovery.errors import reason
from amdgpu_discovery.value import Value

INDEX = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
# Prefix of the toolkit's annotations.
OURS = "com.amd.gpu."
TAG = "org.opencontainers.image.ref.name"
# No tool nests indexes more deeply.
DEEPEST_INDEX = 3
# Each index may have 4 MiB; a layout has one for each tag.
MOST_INDEXES = 256
# A digest in a message is cut to this length.
MOST_DIGEST = 140
# A digest becomes part of a path or a name, so no other characters are allowed.
DIGEST = re.compile(r"(sha256|sha512):[0-9a-f]{64,128}")


class IndexedImage(Value):
    """An image of an index: its reference, and its descriptor merged with the entries of the indexes around it."""

    reference: str
    descriptor: dict[str, Any]

    @property
    def is_described(self) -> bool:
        """Return whether the indexes state what the image is for."""
        return any(name.startswith(OURS) for name in texts_at(self.descriptor, "annotations"))

    @property
    def image(self) -> Image:
        """Return the image as far as the indexes describe it."""
        return describe(self.descriptor, {}, {})


class Walk:
    """Walks once through an index and the indexes in it; `read` returns the document of a descriptor."""

    def __init__(self, read: Callable[[dict[str, Any]], dict[str, Any]] | None = None) -> None:
        self._read = read
        self._indexes = 0

    def entries(self, index: dict[str, Any], prefix: str, tag: str = "") -> list[IndexedImage]:
        """Return the images of an index, or those with `tag`; ImageError.

        References are `prefix` and a tag; without a tag, `prefix` and the digest.
        """
        entries: list[IndexedImage] = []
        for descriptor in objects_at(index, "manifests"):
            name = texts_at(descriptor, "annotations").get(TAG, "")
            if tag in ("", name):
                whole = f"{prefix}:{name}" if name else prefix
                digest = "" if name else f"@{str(descriptor.get('digest'))[:MOST_DIGEST]}"
                entries += self._descend(whole, digest, descriptor, 1)
        return entries

    def _descend(self, name: str, digest: str, descriptor: dict[str, Any], depth: int) -> Iterator[IndexedImage]:
        if self._read is None or descriptor.get("mediaType") not in INDEX:
            if runs_on_amd64(descriptor):
                yield IndexedImage(reference=f"{name}{digest}", descriptor=descriptor)
            return
        self._indexes += 1
        if depth >= DEEPEST_INDEX or self._indexes > MOST_INDEXES:
            raise ImageError(f"{name} has more indexes in indexes than any image needs")
        for inner in objects_at(self._read(descriptor), "manifests"):
            inner_digest = f"@{str(inner.get('digest'))[:MOST_DIGEST]}"
            yield from self._descend(name, inner_digest, merge(descriptor, inner), depth + 1)


def digest_in(descriptor: dict[str, Any]) -> str:
    """Return the digest in a descriptor; "" if it is missing or invalid."""
    digest = descriptor.get("digest")
    return digest if isinstance(digest, str) and DIGEST.fullmatch(digest) else ""


def runs_on_amd64(descriptor: dict[str, Any]) -> bool:
    """Return whether an image is for this architecture. Attestations of BuildKit are for none."""
    return object_at(descriptor, "platform").get("architecture") in (None, "amd64")


def merge(outer: dict[str, Any], inner: dict[str, Any]) -> dict[str, Any]:
    """Return an inner descriptor, completed with annotations and platform of the index entry around it."""
    annotations = {**texts_at(outer, "annotations"), **texts_at(inner, "annotations")}
    platform = object_at(inner, "platform") or object_at(outer, "platform")
    return {**inner, "annotations": annotations, "platform": platform}


def read_oci_layout(name: str, reading: Reading, *, with_layers: bool) -> Image:
    """Return the image that `DIR` or `DIR:TAG` names, or either of them with `@DIGEST`; ImageError."""
    layout = parse_layout(name)
    manifest, descriptor = _resolve(layout, _find(layout, name), name)
    image = describe(descriptor, manifest, layout.read_document(object_at(manifest, "config")))
    return image.replace(layers=tuple(_read_layers(layout, manifest, reading))) if with_layers else image


def read_entries(name: str) -> list[tuple[str, Image]]:
    """Return the images of a layout, or of one of its tags, as far as its indexes describe them; ImageError."""
    layout = parse_layout(name)
    entries = Walk(layout.read_document).entries(layout.read_index(), f"oci:{layout.directory}", layout.tag)
    return [(entry.reference, entry.image) for entry in entries]


def parse_entries(index: dict[str, Any], prefix: str) -> list[tuple[str, Image]]:
    """Return the images of an index by their references, which begin with `prefix`. Nested indexes are not read."""
    return [(entry.reference, entry.image) for entry in Walk().entries(index, prefix)]


def parse_layout(name: str) -> Layout:
    """Parse the name of an image in a layout. The directory's own name may contain colons."""
    if os.path.isdir(name):
        return Layout(name)
    rest, _, digest = name.rpartition("@")
    if not DIGEST.fullmatch(digest):
        rest, digest = name, ""
    directory, _, tag = (rest, "", "") if os.path.isdir(rest) else rest.rpartition(":")
    return Layout(directory or rest, tag if directory else "", digest)


class Layout:
    """The files of a layout, and the tag and digest of an image in it ("" for none).

    A file that is a link is refused, and a digest cannot name a file outside the layout.
    """

    def __init__(self, directory: str, tag: str = "", digest: str = "") -> None:
        self.directory = directory
        self.tag = tag
        self.digest = digest

    def read_index(self) -> dict[str, Any]:
        """Return index.json."""
        return parse_document(self._read("index.json"), "index.json")

    def read_document(self, descriptor: dict[str, Any]) -> dict[str, Any]:
        """Return the document that a descriptor names."""
        path = _blob_path(descriptor)
        return parse_document(self._read(path), path)

    def open_layer(self, descriptor: dict[str, Any]) -> FileIO:
        """Open the blob that a descriptor names."""
        return self._open(_blob_path(descriptor))

    def _read(self, path: str) -> bytes:
        with self._open(path) as file:
            return file.read(LARGEST_IMAGE_DOCUMENT + 1) or b""

    def _open(self, path: str) -> FileIO:
        full = f"{self.directory}/{path}"
        try:
            # Opening a pipe would block. Anything but a plain file is refused below.
            descriptor = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise ImageError(f"{full} cannot be read: {reason(error)}") from error
        file = os.fdopen(descriptor, "rb", buffering=0)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            file.close()
            raise ImageError(f"{full} is not a plain file")
        return file


def _blob_path(descriptor: dict[str, Any]) -> str:
    digest = digest_in(descriptor)
    if not digest:
        raise ImageError("a blob of the image has no sha256 or sha512 digest")
    return f"blobs/{digest.replace(':', '/')}"


def _find(layout: Layout, name: str) -> dict[str, Any]:
    """Return the descriptor of an image. A digest is also looked up in nested indexes."""
    index = layout.read_index()
    if not layout.digest:
        return _choose(index, layout.tag, name)
    for entry in Walk(layout.read_document).entries(index, "", layout.tag):
        if entry.descriptor.get("digest") == layout.digest:
            return entry.descriptor
    raise ImageError(f"oci:{name} has no such image")


def _choose(index: dict[str, Any], tag: str, name: str) -> dict[str, Any]:
    """Return the only index entry, with `tag` if that is given; of several, the only one for amd64."""
    entries = objects_at(index, "manifests")
    if tag:
        entries = [entry for entry in entries if texts_at(entry, "annotations").get(TAG) == tag]
    if len(entries) > 1:
        entries = [entry for entry in entries if runs_on_amd64(entry)]
        if not entries:
            raise ImageError(f"oci:{name} has no image for amd64")
    if len(entries) == 1:
        return entries[0]
    if not entries:
        raise ImageError(f"oci:{name} has no such image")
    tags = sorted({texts_at(entry, "annotations").get(TAG, "") for entry in entries} - {""})
    by_digest = f"'amd-ctk image pick oci:{name}' names the one that fits by its digest"
    raise ImageError(
        f"oci:{name} has {len(entries)} images", hint=f"name one: {', '.join(tags[:8])}" if len(tags) > 1 else by_digest
    )


def _resolve(layout: Layout, descriptor: dict[str, Any], name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Follow a descriptor through indexes to a manifest. Return the manifest and its merged descriptor."""
    for _ in range(DEEPEST_INDEX):
        document = layout.read_document(descriptor)
        if not (descriptor.get("mediaType") in INDEX or "manifests" in document):
            return document, descriptor
        amd64 = [entry for entry in objects_at(document, "manifests") if runs_on_amd64(entry)]
        descriptor = merge(descriptor, _choose({"manifests": amd64}, "", name))
    raise ImageError(f"oci:{name} is an index in an index in an index")


def _read_layers(layout: Layout, manifest: dict[str, Any], reading: Reading) -> list[LayerContents]:
    descriptors = objects_at(manifest, "layers")
    if len(descriptors) > MOST_MANIFEST_LAYERS:
        raise ImageError(f"it has more than {MOST_MANIFEST_LAYERS} layers")
    layers: list[LayerContents] = []
    for number, descriptor in enumerate(descriptors, 1):
        reading.layer = f"layer {number} of {len(descriptors)}"
        with layout.open_layer(descriptor) as file:
            layers.append(read_layer(file, reading))
    return layers
