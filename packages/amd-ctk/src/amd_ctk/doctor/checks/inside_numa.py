"""Does seccomp refuse the calls that place memory near a GPU?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, note
from amd_ctk.doctor.inside.tried import gpus_inside, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "engines' seccomp profiles allow mbind and set_mempolicy with CAP_SYS_NICE alone; RCCL and numactl then complain"
PLACE = "how-to/troubleshoot.md#no-message-and-no-gpu"
# linux/capability.h
CAP_SYS_NICE = 23


def check(facts: Facts) -> Finding | None:
    """Say so on a host with several NUMA nodes."""
    inside = facts.inside
    if inside is None or inside.numa_nodes < 2 or not gpus_inside(facts):
        return None
    if not inside.process.has_seccomp or inside.process.has_capability(CAP_SYS_NICE):
        return None
    return note(f"seccomp may refuse NUMA calls in {name_of(facts)}", fix="add --cap-add=SYS_NICE if a program asks")
