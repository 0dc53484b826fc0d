"""What the proxy answers for the tag of an index: one image of it, the reason why none fits, or the index as it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import new
from threading import BoundedSemaphore, Lock

from amd_ctk.image.bounds import ImageError
from amd_ctk.image.check import JudgedImage, best, judge_entries, read_host
from amd_ctk.image.configuration import parse_document
from amd_ctk.image.oci_layout import INDEX, IndexedImage, Walk, digest_in
from amd_ctk.image.registry_name import REFUSED_BY_PROXY
from amd_ctk.image_proxy.registry_connection import RegistryAnswer
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host
from amdgpu_discovery.plain_text import one_line
from amdgpu_discovery.value import Value

IMAGE = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
# Of those that do not fit: a message is one line in a terminal.
MOST_REASONS = 8
# An index of ten thousand would keep a processor busy for a second.
MOST_IMAGES = 256
# How many documents are in memory, and of how many at once the JSON is.
reading, judging = BoundedSemaphore(8), Lock()


class Reply(Value):
    """An answer that does not come from the registry as it is; `refusal` is the sentence in it."""

    status: int
    headers: tuple[tuple[str, str], ...]
    content: bytes
    refusal: str = ""


def refuse(status: int, code: str, message: str) -> Reply:
    """Return an error as registries write it; engines print its message."""
    content = json.dumps({"errors": [{"code": code, "message": message}]}).encode()
    return Reply(status=status, headers=(("Content-Type", "application/json"),), content=content, refusal=message)


def is_index(answer: RegistryAnswer) -> bool:
    """Return whether an index follows."""
    return answer.status == 200 and answer.media_type in INDEX


def reply_for_index(
    host: Host, answer: RegistryAnswer, ask_for: Callable[[str], RegistryAnswer]
) -> Reply | RegistryAnswer:
    """Return what a host gets of an index; RegistryError.

    `ask_for` asks for an image by its digest. If that is refused, the registry's answer is returned.
    """
    with reading:
        content = answer.document()
        try:
            digest = _find_digest(host, answer, content)
        # An engine takes the first image of an index that it gets, so one that cannot be judged is not passed on.
        except ToolkitError as error:
            return refuse(404, "MANIFEST_UNKNOWN", one_line(f"{REFUSED_BY_PROXY}{error.message}"))
        if digest is None:
            return Reply(status=answer.status, headers=tuple(answer.headers), content=content or b"")
        image = ask_for(digest)
        return image if image.status != 200 else _reply_for_image(digest, image)


def _find_digest(host: Host, answer: RegistryAnswer, content: bytes | None) -> str | None:
    """Return the digest of the image that fits, None where the index says of no image what it is for; ToolkitError."""
    if content is None or answer.header("Content-Encoding"):
        raise ImageError("the index is compressed, or larger than 512 KiB")
    with judging:
        entries = Walk().entries(parse_document(content, "the index"), "")
        if not any(entry.is_told for entry in entries):
            return None
        return _choose(host, [entry for entry in entries if _is_usable(entry)])


def _choose(host: Host, entries: list[IndexedImage]) -> str:
    if len(entries) > MOST_IMAGES:
        raise ImageError(f"the index has more than {MOST_IMAGES} images")
    images = ((digest_in(entry.descriptor), entry.image) for entry in entries)
    # The GPUs that a container will get are not known when its image is pulled.
    candidates = judge_entries(images, read_host(host, "all"))
    chosen = best(candidates)
    if chosen is None:
        raise ImageError(_format_reasons(candidates))
    return chosen.name


def _is_usable(entry: IndexedImage) -> bool:
    # Of an index in the index the engine would take the first image.
    return entry.descriptor.get("mediaType") not in INDEX and digest_in(entry.descriptor) != ""


def _format_reasons(candidates: list[JudgedImage]) -> str:
    reasons = list(dict.fromkeys(each.reason for each in candidates))
    more = [f"{len(reasons) - MOST_REASONS} more reasons"] if len(reasons) > MOST_REASONS else []
    return "; ".join([*reasons[:MOST_REASONS], *more]) or "the index has no image for amd64"


def _reply_for_image(digest: str, image: RegistryAnswer) -> Reply:
    content = image.document() or b""
    algorithm, _, expected = digest.partition(":")
    # An engine that asked for a tag compares it with nothing, and of another index it would take the first image.
    if new(algorithm, content).hexdigest() != expected or image.media_type not in IMAGE:
        return refuse(502, "MANIFEST_INVALID", f"the registry sent something other than the image {digest}")
    headers = (("Content-Type", image.media_type), ("Docker-Content-Digest", digest))
    return Reply(status=200, headers=headers, content=content)
