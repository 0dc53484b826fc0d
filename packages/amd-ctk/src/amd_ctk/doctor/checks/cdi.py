"""Is the CDI spec true of this host?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, note, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "an engine gives out the nodes that the spec names, whatever the host has become"
PLACE = "how-to/cdi.md"


def check(facts: Facts) -> Finding | None:
    """Judge the specs of amd.com/gpu."""
    cdi = facts.cdi
    if cdi.broken:
        return bad(f"engines leave a spec out: {cdi.broken[0]}", fix="sudo amd-ctk cdi generate")
    if cdi.conflicts:
        return None
    if not cdi.paths:
        return note("no CDI spec offers amd.com/gpu, for engines that use CDI", fix="sudo amd-ctk cdi generate")
    if cdi.untrue and facts.gpus.gpus and not facts.gpus.node_problems:
        return bad(cdi.untrue[0], fix="sudo amd-ctk cdi refresh")
    if cdi.untrue:
        return None
    return ok(f"{', '.join(cdi.paths)} says what this host has")
