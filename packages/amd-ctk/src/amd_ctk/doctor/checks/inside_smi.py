"""Do tools inside show more GPUs than the container can use?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, note
from amd_ctk.doctor.inside.tried import gpus_inside, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "rocm-smi reads /sys, which shows all of the host in every container; rocminfo and HIP show what can be used"
PLACE = "explanation/access.md"


def check(facts: Facts) -> Finding | None:
    """Say that it is no fault, where it can be seen."""
    given, total = len(gpus_inside(facts)), len(facts.gpus.gpus)
    if not given or given == total:
        return None
    return note(f"rocm-smi in {name_of(facts)} may list {total} GPUs, and {given} can be used", fix="look at rocminfo")
