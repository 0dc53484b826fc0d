"""What the proxy answers for the tag of an index: one image of it, the reason why none fits, or the index as it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import new
from threading import BoundedSemaphore, Lock

from amd_ctk.image.oci_layout import INDEX
from amd_ctk.image.registry_name import REFUSED_BY_PROXY
from amd_ctk.image_proxy.choice import Chosen, choose
from amd_ctk.image_proxy.registry_connection import RegistryAnswer
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

IMAGE = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
UNREADABLE = f"{REFUSED_BY_PROXY}the index is compressed, or larger than 512 KiB"
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
        choice = _choose(host, answer, content)
        if choice is None:
            return Reply(status=answer.status, headers=tuple(answer.headers), content=content or b"")
        if choice.refusal:
            return refuse(404, "MANIFEST_UNKNOWN", choice.refusal)
        image = ask_for(choice.digest)
        return image if image.status != 200 else _reply_for_image(choice.digest, image)


def _choose(host: Host, answer: RegistryAnswer, content: bytes | None) -> Chosen | None:
    if content is None or answer.header("Content-Encoding"):
        return Chosen(refusal=UNREADABLE)
    with judging:
        return choose(host, content)


def _reply_for_image(digest: str, image: RegistryAnswer) -> Reply:
    content = image.document() or b""
    algorithm, _, expected = digest.partition(":")
    # An engine that asked for a tag compares it with nothing, and of another index it would take the first image.
    if new(algorithm, content).hexdigest() != expected or image.media_type not in IMAGE:
        return refuse(502, "MANIFEST_INVALID", f"the registry sent something other than the image {digest}")
    headers = (("Content-Type", image.media_type), ("Docker-Content-Digest", digest))
    return Reply(status=200, headers=headers, content=content)
