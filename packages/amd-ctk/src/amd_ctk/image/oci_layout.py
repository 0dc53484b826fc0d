"""Read an image in an OCI image layout, a directory with index.json and blobs, as skopeo, umoci and buildah make it."""

from __future__ import annotations

import os
import re
import stat

from amd_ctk.image.configuration import (
    LARGEST_DOCUMENT,
    environment_of,
    labels_of,
    object_in,
    objects_in,
    parse_document,
    texts_in,
)
from amd_ctk.image.contents import Image
from amd_ctk.image.errors import ImageError
from amd_ctk.image.layers import read_layer
from amdgpu_discovery.errors import reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from io import FileIO
    from typing import Any

    from amd_ctk.image.contents import LayerContents
    from amd_ctk.image.progress import Progress

# A digest becomes a path, so it is nothing but this.
DIGEST = re.compile(r"(sha256|sha512):[0-9a-f]{64,128}")
INDEX = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
TAG = "org.opencontainers.image.ref.name"
# An index in an index in an index is nobody's.
DEEPEST = 3
MOST_LAYERS = 512
# Of a digest that is repeated.
MOST_DIGEST = 140


def read_oci_layout(name: str, progress: Progress, *, deep: bool, with_layers: bool) -> Image:
    """Return the image in `DIR` or `DIR:TAG`; ImageError."""
    directory, _, tag = (name, "", "") if os.path.isdir(name) else name.rpartition(":")
    layout = Layout(directory or name)
    descriptor = _choose(layout.read_index(), tag, name)
    annotations = texts_in(descriptor, "annotations")
    manifest = _resolve(layout, descriptor, name)
    configuration = layout.read_document(object_in(manifest, "config"))
    return Image(
        layers=tuple(_read_layers(layout, manifest, progress, deep=deep)) if with_layers else (),
        environment=environment_of(configuration),
        labels=labels_of(configuration),
        annotations={**texts_in(manifest, "annotations"), **annotations},
        cpu=cpu_of(descriptor),
    )


def read_entries(directory: str) -> list[tuple[str, Image]]:
    """Return the images of a layout by their references, as far as its index describes them; ImageError."""
    return parse_entries(Layout(directory).read_index(), f"oci:{directory}:")


def parse_entries(index: dict[str, Any], prefix: str) -> list[tuple[str, Image]]:
    """Return the images of an index by their references: `prefix` and a tag, or the digest where there is no tag."""
    entries: list[tuple[str, Image]] = []
    for descriptor in objects_in(index, "manifests"):
        annotations = texts_in(descriptor, "annotations")
        name = annotations.get(TAG)
        reference = f"{prefix}{name}" if name else f"{prefix[:-1]}@{str(descriptor.get('digest'))[:MOST_DIGEST]}"
        entries.append((reference, Image(layers=(), annotations=annotations, cpu=cpu_of(descriptor))))
    return entries


def cpu_of(descriptor: dict[str, Any]) -> str:
    """Return the level of x86-64 that an index entry asks for, "" where it asks for none."""
    platform = object_in(descriptor, "platform")
    variant = platform.get("variant")
    is_level = platform.get("architecture") == "amd64" and variant in ("v1", "v2", "v3", "v4")
    return f"x86-64-{variant}" if is_level else ""


class Layout:
    """The files of a layout. None of them is followed as a link, and none outside of it is opened."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

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
            return file.read(LARGEST_DOCUMENT + 1) or b""

    def _open(self, path: str) -> FileIO:
        full = f"{self._directory}/{path}"
        try:
            # A pipe would block; what is not a plain file is refused below.
            descriptor = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise ImageError(f"{full} cannot be read: {reason(error)}") from error
        file = os.fdopen(descriptor, "rb", buffering=0)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            file.close()
            raise ImageError(f"{full} is not a plain file")
        return file


def _blob_path(descriptor: dict[str, Any]) -> str:
    digest = descriptor.get("digest")
    if not isinstance(digest, str) or not DIGEST.fullmatch(digest):
        raise ImageError("a blob of the image has no sha256 or sha512 digest")
    return f"blobs/{digest.replace(':', '/')}"


def _choose(index: dict[str, Any], tag: str, name: str) -> dict[str, Any]:
    """Return the entry of an index that has a tag, or the only one."""
    entries = objects_in(index, "manifests")
    if tag:
        entries = [entry for entry in entries if texts_in(entry, "annotations").get(TAG) == tag]
    if len(entries) == 1:
        return entries[0]
    tags = sorted({texts_in(entry, "annotations").get(TAG, "") for entry in entries} - {""})
    what = "no such image" if not entries else f"{len(entries)} images"
    raise ImageError(f"oci:{name} has {what}", hint=f"name one: {', '.join(tags[:8])}" if tags else "")


def _resolve(layout: Layout, descriptor: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the manifest that a descriptor leads to, through an index for several platforms."""
    for _ in range(DEEPEST):
        document = layout.read_document(descriptor)
        if not (descriptor.get("mediaType") in INDEX or "manifests" in document):
            return document
        amd64 = [
            entry
            for entry in objects_in(document, "manifests")
            if object_in(entry, "platform").get("architecture") in (None, "amd64")
        ]
        descriptor = _choose({"manifests": amd64}, "", name)
    raise ImageError(f"oci:{name} is an index in an index in an index")


def _read_layers(layout: Layout, manifest: dict[str, Any], progress: Progress, *, deep: bool) -> list[LayerContents]:
    descriptors = objects_in(manifest, "layers")
    if len(descriptors) > MOST_LAYERS:
        raise ImageError(f"it has more than {MOST_LAYERS} layers")
    layers: list[LayerContents] = []
    for number, descriptor in enumerate(descriptors, 1):
        progress.layer = f"layer {number} of {len(descriptors)}"
        with layout.open_layer(descriptor) as file:
            layers.append(read_layer(file, progress, deep=deep))
    return layers
