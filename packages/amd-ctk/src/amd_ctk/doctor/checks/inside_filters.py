"""Do variables inside hide GPUs that the container has?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, note
from amd_ctk.doctor.inside.tried import gpus_inside, name_of
from amd_ctk.explain.visible_inside import FILTERS, look_inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "ROCR_, HIP_ and CUDA_VISIBLE_DEVICES count the GPUs of a container from 0; numbers of the host hide them all"
PLACE = "explanation/numbering.md#inside-a-container"


def check(facts: Facts) -> Finding | None:
    """Judge the environment with which the container was started."""
    gpus = gpus_inside(facts)
    variables = facts.inside.variables if facts.inside else {}
    filters = {name: variables[name] for name in FILTERS if variables.get(name)}
    if not gpus or not filters:
        return None
    inside = look_inside(gpus, filters)
    name, words = list(inside.words_by_variable.items())[-1]
    if not inside.hip_gpus:
        said = f"{name}={filters[name]} in {name_of(facts)} {words}"
        return bad(said, fix=f"start it without {name}; AMD_VISIBLE_DEVICES chooses GPUs of the host")
    if len(inside.hip_gpus) < len(gpus):
        return note(f"{name}={filters[name]} in {name_of(facts)} {words}")
    return None
