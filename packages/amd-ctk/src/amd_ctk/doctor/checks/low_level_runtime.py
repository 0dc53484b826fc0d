"""Is there a runtime to hand containers to?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "the AMD runtime becomes runc or crun once it has done its part"
PLACE = "reference/runtime.md#the-low-level-runtime"


def check(facts: Facts) -> Finding | None:
    """Judge whether runc, crun or the configured runtime can be run, where amd-container-runtime is used."""
    toolkit = facts.toolkit
    if toolkit.broken_low_level:
        words = f"low-level-runtime is {toolkit.broken_low_level}, which cannot be run"
        return bad(words, fix="sudo amd-ctk config unset low-level-runtime")
    if toolkit.has_low_level:
        return ok("there is a low-level runtime")
    if not toolkit.runtime_program:
        return None
    return bad("there is no runc and no crun", fix="sudo apt install runc")
