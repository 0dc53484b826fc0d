"""Answer a request for the tag of an index: with one of its images, the reason why none fits, or the index."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import new
from threading import BoundedSemaphore, Lock

from amd_gpu_images.archives.oci_layout import INDEX, IndexedImage, Walk, digest_in
from amd_gpu_images.bounds import ImageError
from amd_gpu_images.check import JudgedImage, best, judge_entries, read_host
from amd_gpu_images.content.configuration import parse_document
from amd_gpu_images.proxy.registry_connection import RegistryAnswer
from amd_gpu_images.registries.registry_name import REFUSED_BY_PROXY
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host
from amdgpu_discovery.untrusted.plain_text import one_line
from amdgpu_discovery.value import Value

IMAGE = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
# Limit for the reasons in a message, which has to fit on one line of a terminal.
MOST_REASONS = 8
# An index of ten thousand images would keep a processor busy for a second.
MOST_IMAGES = 256
# At most eight documents are in memory, and only one at a time is parsed.
reading, judging = BoundedSemaphore(8), Lock()


class Reply(Value):
    """An answer made by the proxy; `refusal` is its message if it is an error."""

    status: int
    headers: tuple[tuple[str, str], ...]
    content: bytes
    refusal: str = ""


def refuse(status: int, code: str, message: str) -> Reply:
    """Return an error in the form that registries use; engines print its message."""
    content = json.dumps({"errors": [{"code": code, "message": message}]}).encode()
    return Reply(status=status, headers=(("Content-Type", "application/json"),), content=content, refusal=message)


def is_index(answer: RegistryAnswer) -> bool:
    """Return whether the content of an answer is an index."""
    return answer.status == 200 and answer.media_type in INDEX


def reply_for_index(
    host: Host, answer: RegistryAnswer, ask_for: Callable[[str], RegistryAnswer]
) -> Reply | RegistryAnswer:
    """Return the answer that this host gets for an index; RegistryError.

    `ask_for` requests an image by its digest. If the registry refuses that, its answer is returned.
    """
    with reading:
        content = answer.document()
        try:
            digest = _find_digest(host, answer, content)
        # An engine takes the first image of an index that it gets. So never pass on an index that cannot be judged.
        except ToolkitError as error:
            return refuse(404, "MANIFEST_UNKNOWN", one_line(f"{REFUSED_BY_PROXY}{error.message}"))
        if digest is None:
            return Reply(status=answer.status, headers=tuple(answer.headers), content=content or b"")
        image = ask_for(digest)
        return image if image.status != 200 else _reply_for_image(digest, image)


def _find_digest(host: Host, answer: RegistryAnswer, content: bytes | None) -> str | None:
    """Return the digest of the image that fits; None if the index describes none of its images. ToolkitError."""
    if content is None or answer.header("Content-Encoding"):
        raise ImageError("the index is compressed, or larger than 512 KiB")
    with judging:
        entries = Walk().entries(parse_document(content, "the index"), "")
        if not any(entry.is_described for entry in entries):
            return None
        return _choose(host, [entry for entry in entries if _is_usable(entry)])


def _choose(host: Host, entries: list[IndexedImage]) -> str:
    if len(entries) > MOST_IMAGES:
        raise ImageError(f"the index has more than {MOST_IMAGES} images")
    images = ((digest_in(entry.descriptor), entry.image) for entry in entries)
    # When an image is pulled, nobody knows which GPUs its container will get.
    candidates = judge_entries(images, read_host(host, "all"))
    chosen = best(candidates)
    if chosen is None:
        raise ImageError(_format_reasons(candidates))
    return chosen.name


def _is_usable(entry: IndexedImage) -> bool:
    # An engine would take the first image of a nested index.
    return entry.descriptor.get("mediaType") not in INDEX and digest_in(entry.descriptor) != ""


def _format_reasons(candidates: list[JudgedImage]) -> str:
    reasons = list(dict.fromkeys(each.reason for each in candidates))
    more = [f"{len(reasons) - MOST_REASONS} more reasons"] if len(reasons) > MOST_REASONS else []
    return "; ".join([*reasons[:MOST_REASONS], *more]) or "the index has no image for amd64"


def _reply_for_image(digest: str, image: RegistryAnswer) -> Reply:
    content = image.document() or b""
    algorithm, _, expected = digest.partition(":")
    # An engine that asked for a tag cannot check the digest, and of another index it would take the first image.
    if new(algorithm, content).hexdigest() != expected or image.media_type not in IMAGE:
        return refuse(502, "MANIFEST_INVALID", f"the registry sent something other than the image {digest}")
    headers = (("Content-Type", image.media_type), ("Docker-Content-Digest", digest))
    return Reply(status=200, headers=headers, content=content)
