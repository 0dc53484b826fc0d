"""Which image of an index a host gets, from the document alone."""

from __future__ import annotations

from amd_ctk.image.bounds import ImageError
from amd_ctk.image.check import read_host
from amd_ctk.image.configuration import parse_document, texts_in
from amd_ctk.image.oci_layout import DIGEST, INDEX, IndexedImage, Walk, images_of
from amd_ctk.image.pick import JudgedImage, best, judge_entries
from amd_ctk.image.registry import OURS
from amd_ctk.image.registry_name import REFUSED_BY_PROXY
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host
from amdgpu_discovery.plain_text import one_line
from amdgpu_discovery.value import Value

# Of those that do not fit: a message is one line in a terminal.
MOST_REASONS = 8
# An index of ten thousand would keep a processor busy for a second.
MOST_IMAGES = 256


class Chosen(Value):
    """The digest of the image that fits, or why there is none."""

    digest: str = ""
    refusal: str = ""


def choose(host: Host, content: bytes) -> Chosen | None:
    """Return which image of an index a host gets; None if the index does not say what its images are for."""
    try:
        entries = Walk().entries(parse_document(content, "the index"), "")
        if not any(_says_something(entry) for entry in entries):
            return None
        return _choose(host, [entry for entry in entries if _is_usable(entry)])
    # An engine takes the first image of an index that it gets, so one that cannot be judged is not passed on.
    except ToolkitError as error:
        return _refuse(error.message)


def _choose(host: Host, entries: list[IndexedImage]) -> Chosen:
    if len(entries) > MOST_IMAGES:
        raise ImageError(f"the index has more than {MOST_IMAGES} images")
    digests = [str(entry.descriptor["digest"]) for entry in entries]
    images = [image for _, image in images_of(entries)]
    # The GPUs that a container will get are not known when its image is pulled.
    candidates = judge_entries(zip(digests, images, strict=True), read_host(host, "all"))
    chosen = best(candidates)
    return Chosen(digest=chosen.name) if chosen else _refuse(_format_reasons(candidates))


def _says_something(entry: IndexedImage) -> bool:
    return any(name.startswith(OURS) for name in texts_in(entry.descriptor, "annotations"))


def _is_usable(entry: IndexedImage) -> bool:
    digest = entry.descriptor.get("digest")
    # Of an index in the index the engine would take the first image.
    is_image = entry.descriptor.get("mediaType") not in INDEX
    return is_image and isinstance(digest, str) and DIGEST.fullmatch(digest) is not None


def _format_reasons(candidates: list[JudgedImage]) -> str:
    reasons = list(dict.fromkeys(each.reason for each in candidates))
    more = [f"{len(reasons) - MOST_REASONS} more reasons"] if len(reasons) > MOST_REASONS else []
    return "; ".join([*reasons[:MOST_REASONS], *more]) or "the index has no image for amd64"


def _refuse(words: str) -> Chosen:
    return Chosen(refusal=one_line(f"{REFUSED_BY_PROXY}{words}"))
