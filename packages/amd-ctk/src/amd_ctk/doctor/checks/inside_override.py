"""Does HSA_OVERRIDE_GFX_VERSION name a target whose code runs on the GPU?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, note
from amd_ctk.doctor.inside.tried import gpus_inside, name_of
from amdgpu_discovery.targets import OVERRIDE, fits, generation_of, parse_override
from amdgpu_discovery.unknown_gpus import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts
    from amdgpu_discovery.gpu import Gpu

WHY = "ROCm loads the code of the target that the variable names, and fails where there is none or no GPU can run it"
PLACE = "how-to/troubleshoot.md#no-message-and-no-gpu"


def check(facts: Facts) -> Finding | None:
    """Judge the variable against the image's libraries and the container's GPUs."""
    value = facts.inside.variables.get(OVERRIDE, "") if facts.inside else ""
    gpus = [gpu for gpu in gpus_inside(facts) if gpu.gfx_target]
    if facts.inside is None or not value or not gpus:
        return None
    target = parse_override(value)
    if not target:
        words = f"{OVERRIDE}={shown(value)} in {name_of(facts)} is no version"
        return bad(words, fix=f"start it without {OVERRIDE}, or write it as 10.3.0")
    return _judge(target, gpus[0], facts.inside.image.targets)


def _judge(target: str, gpu: Gpu, targets: tuple[str, ...]) -> Finding:
    makes = f"{OVERRIDE} makes GPU {gpu.number} {target}"
    if targets and not fits(target, targets):
        words = f"{makes}, and the image has code for {' '.join(targets)}"
        return bad(words, fix=f"set {OVERRIDE} to one of these, or use an image with code for {gpu.gfx_target}")
    if generation_of(target) != generation_of(gpu.gfx_target):
        words = f"{makes}, and it is {gpu.gfx_target}, which cannot run that code"
        return bad(words, fix=f"start it without {OVERRIDE}, with an image that has code for {gpu.gfx_target}")
    return note(f"{OVERRIDE} makes ROCm take every GPU for {target}, which AMD does not support")
