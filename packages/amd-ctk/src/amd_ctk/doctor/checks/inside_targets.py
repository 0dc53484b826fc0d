"""Has the image code for the container's GPUs?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, note, ok
from amd_ctk.doctor.inside.image_files import MOST_TARGETS
from amd_ctk.doctor.inside.tried import gpus_inside
from amdgpu_discovery.targets import OVERRIDE, fits, parse_override

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "a library without code for a GPU's target fails with 'invalid device function', or falls back to the processor"
PLACE = "how-to/troubleshoot.md#no-message-and-no-gpu"


def check(facts: Facts) -> Finding | None:
    """Judge the targets for which the image's libraries have files."""
    inside = facts.inside
    gpus = [gpu for gpu in gpus_inside(facts) if gpu.gfx_target]
    if inside is None or not inside.image.targets or not gpus:
        return None
    if len(inside.image.targets) > MOST_TARGETS:
        return note("the image has code for too many targets to list")
    override, known = parse_override(inside.variables.get(OVERRIDE, "")), " ".join(inside.image.targets)
    lacking = [gpu for gpu in gpus if not fits(override or gpu.gfx_target, inside.image.targets)]
    if lacking and override:
        words = f"{OVERRIDE} makes GPU {lacking[0].number} {override}, and the image has code for {known}"
        return bad(words, fix=f"set {OVERRIDE} to one of these, or use an image with code for {lacking[0].gfx_target}")
    if lacking:
        words = f"GPU {lacking[0].number} is {lacking[0].gfx_target}, and the image has code for {known}"
        return bad(words, fix=f"use an image with code for {lacking[0].gfx_target}")
    if override:
        return note(f"{OVERRIDE} makes ROCm take every GPU for {override}, which AMD does not support")
    return ok(f"the image has code for {', '.join(sorted({gpu.gfx_target for gpu in gpus}))}")
