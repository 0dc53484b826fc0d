"""Does a container use the integrated GPU where it should use a card?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, note
from amd_ctk.doctor.inside.tried import gpus_inside, name_of
from amd_ctk.explain.visible_inside import look_inside
from amdgpu_discovery.targets import fits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amd_ctk.doctor.facts.all import Facts
    from amdgpu_discovery.gpu import GpuLocation

WHY = "a program takes the GPU that HIP counts first; images seldom have code for integrated GPUs"
PLACE = "explanation/numbering.md#inside-a-container"


def check(facts: Facts) -> Finding | None:
    """Judge the GPUs that the container's variables leave, on a host that has cards."""
    integrated = {gpu.number: gpu for gpu in gpus_inside(facts) if gpu.is_apu}
    cards = [gpu.number for gpu in facts.gpus.gpus if not gpu.is_apu]
    if facts.inside is None or not integrated or not cards:
        return None
    filters = {name: value for name, value in facts.inside.variables.items() if value}
    seen = look_inside(gpus_inside(facts), filters).hip_gpus
    used = next((integrated[gpu.number] for gpu in seen if gpu.number in integrated), None)
    if used is None:
        return None
    fix = f"ask for the cards: AMD_VISIBLE_DEVICES={','.join(map(str, cards))}"
    targets = facts.inside.image.targets
    if used.gfx_target and targets and not fits(used.gfx_target, targets):
        words = (
            f"{name_of(facts)} has GPU {used.number}, which is integrated; the image has no code for {used.gfx_target}"
        )
        return bad(words, fix=fix)
    return _judge(name_of(facts), seen, set(integrated), fix)


def _judge(name: str, seen: Sequence[GpuLocation], integrated: set[int], fix: str) -> Finding:
    first = seen[0].number
    if first in integrated and not all(gpu.number in integrated for gpu in seen):
        return bad(f"HIP in {name} counts GPU {first} first, which is integrated, and cards behind it", fix=fix)
    numbers = ", ".join(str(gpu.number) for gpu in seen if gpu.number in integrated)
    return note(f"{name} uses GPU {numbers}, which is integrated", fix=fix)
