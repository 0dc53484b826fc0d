"""The images that an index of OCI lists, with those of the indexes in it, as 'skopeo copy --all' makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from amd_ctk.image.bounds import ImageError
from amd_ctk.image.configuration import object_in, objects_in, texts_in
from amdgpu_discovery.value import Value

INDEX = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
TAG = "org.opencontainers.image.ref.name"
# An index in an index in an index is nobody's.
DEEPEST = 3
# Each may have 4 MiB; a layout has one for each tag.
MOST_INDEXES = 256
# Of a digest that is repeated.
MOST_DIGEST = 140


class Entry(Value):
    """An image of an index: how it is called, and its descriptor with what the indexes around it say."""

    reference: str
    descriptor: dict[str, Any]


class Walk:
    """One way through an index and the indexes in it; `read` returns the document of a descriptor."""

    def __init__(self, read: Callable[[dict[str, Any]], dict[str, Any]] | None = None) -> None:
        self._read = read
        self._indexes = 0

    def entries(self, index: dict[str, Any], prefix: str, tag: str = "") -> list[Entry]:
        """Return the images of an index, those of one tag where it is given; ImageError.

        They are called by `prefix` and a tag, or by the digest where there is none.
        """
        entries: list[Entry] = []
        for descriptor in objects_in(index, "manifests"):
            name = texts_in(descriptor, "annotations").get(TAG, "")
            if tag in ("", name):
                whole = f"{prefix}:{name}" if name else prefix
                digest = "" if name else f"@{str(descriptor.get('digest'))[:MOST_DIGEST]}"
                entries += self._descend(whole, digest, descriptor, 1)
        return entries

    def _descend(self, name: str, digest: str, descriptor: dict[str, Any], depth: int) -> Iterator[Entry]:
        if self._read is None or descriptor.get("mediaType") not in INDEX:
            if runs_on_amd64(descriptor):
                yield Entry(reference=f"{name}{digest}", descriptor=descriptor)
            return
        self._indexes += 1
        if depth >= DEEPEST or self._indexes > MOST_INDEXES:
            raise ImageError(f"{name} has more indexes in indexes than any image needs")
        for inner in objects_in(self._read(descriptor), "manifests"):
            inner_digest = f"@{str(inner.get('digest'))[:MOST_DIGEST]}"
            yield from self._descend(name, inner_digest, merge(descriptor, inner), depth + 1)


def runs_on_amd64(descriptor: dict[str, Any]) -> bool:
    """Return whether an image is for this architecture; attestations of BuildKit are for none."""
    return object_in(descriptor, "platform").get("architecture") in (None, "amd64")


def merge(outer: dict[str, Any], inner: dict[str, Any]) -> dict[str, Any]:
    """Return the descriptor of an index's entry with what the descriptor of that index says beside it."""
    annotations = {**texts_in(outer, "annotations"), **texts_in(inner, "annotations")}
    platform = object_in(inner, "platform") or object_in(outer, "platform")
    return {**inner, "annotations": annotations, "platform": platform}


def cpu_of(descriptor: dict[str, Any]) -> str:
    """Return the level of x86-64 that an index entry asks for, "" where it asks for none."""
    platform = object_in(descriptor, "platform")
    variant = platform.get("variant")
    is_level = platform.get("architecture") == "amd64" and variant in ("v1", "v2", "v3", "v4")
    return f"x86-64-{variant}" if is_level else ""
