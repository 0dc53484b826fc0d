"""Does the GPU Tracker know the GPUs?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, note, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "while its state cannot be read, or is of other GPUs, no container gets one"
PLACE = "how-to/troubleshoot.md#the-gpu-tracker"


def check(facts: Facts) -> Finding | None:
    """Judge the tracker's state."""
    toolkit = facts.toolkit
    if toolkit.tracker_problem and facts.gpus.gpus:
        return bad(toolkit.tracker_problem, fix="sudo amd-ctk gpu-tracker reset")
    if toolkit.dead_leases:
        count = toolkit.dead_leases
        return note(f"{count} lease{'' if count == 1 else 's'} of containers that are gone; the next claim drops them")
    return ok("the GPU Tracker's state is understood")
