"""Are kernels that a first run compiles kept?"""

from __future__ import annotations

import os

from amd_ctk.doctor.finding import Finding, bad, note, ok
from amd_ctk.doctor.inside.caches import find_home
from amd_ctk.doctor.inside.tried import name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts
    from amd_ctk.doctor.facts.inside import InsideFacts

WHY = "MIOpen, Triton and the compiler keep kernels below the home directory; lost, each first run takes minutes again"
PLACE = "how-to/troubleshoot.md#no-message-and-no-gpu"


def check(facts: Facts) -> Finding | None:
    """Judge whether the caches of a container with ROCm are on a volume."""
    inside = facts.inside
    if inside is None or not inside.image.has_rocm:
        return None
    lost = next((path for path in inside.image.compiled if not _is_kept(path, inside)), "")
    if lost:
        words = f"{name_of(facts)} has compiled kernels into {lost}, where they are lost with it"
        return bad(words, fix=f"add --volume=rocm-cache:{os.path.dirname(lost)}")
    cache = f"{find_home(inside.variables)}/.cache"
    if _is_kept(cache, inside):
        return ok(f"{cache} is on a volume")
    return note(f"{cache} in {name_of(facts)} is lost with it", fix=f"add --volume=rocm-cache:{cache}")


def _is_kept(path: str, inside: InsideFacts) -> bool:
    return any(path == point or path.startswith(f"{point}/") for point in inside.mount_points if point != "/")
