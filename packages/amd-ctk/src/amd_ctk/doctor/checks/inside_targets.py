"""Has the image code for the container's GPUs?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, note, ok
from amd_ctk.doctor.inside.image_files import MOST_TARGETS
from amd_ctk.doctor.inside.tried import gpus_inside
from amdgpu_discovery.targets import OVERRIDE, fits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts
    from amdgpu_discovery.gpu import Gpu

WHY = "a library without code for a GPU's target fails with 'invalid device function', or falls back to the processor"
PLACE = "how-to/troubleshoot.md#no-message-and-no-gpu"


def check(facts: Facts) -> Finding | None:
    """Judge the targets for which the image's libraries have files."""
    inside, gpus = facts.inside, _find_gpus(facts)
    # What an override makes of the targets is said by inside-override.
    if inside is None or not inside.image.targets or not gpus or inside.variables.get(OVERRIDE):
        return None
    if len(inside.image.targets) > MOST_TARGETS:
        return note("the image has code for too many targets to list")
    known = " ".join(inside.image.targets)
    lacking = [gpu for gpu in gpus if not fits(gpu.gfx_target, inside.image.targets)]
    if lacking:
        words = f"GPU {lacking[0].number} is {lacking[0].gfx_target}, and the image has code for {known}"
        return bad(words, fix=f"use an image with code for {lacking[0].gfx_target}")
    return ok(f"the image has code for {', '.join(sorted({gpu.gfx_target for gpu in gpus}))}")


def _find_gpus(facts: Facts) -> list[Gpu]:
    """Return the GPUs whose targets are known; of a host with cards, inside-integrated judges the others."""
    has_cards = any(not gpu.is_apu for gpu in facts.gpus.gpus)
    return [gpu for gpu in gpus_inside(facts) if gpu.gfx_target and not (has_cards and gpu.is_apu)]
