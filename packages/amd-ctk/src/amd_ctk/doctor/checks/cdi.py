"""Is the CDI spec true of this host?"""

from __future__ import annotations

from shlex import quote

from amd_ctk.cdi.generate_options import DEFAULT_OUTPUT
from amd_ctk.doctor.finding import Finding, bad, note, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts
    from amd_ctk.doctor.facts.cdi import CdiFacts

WHY = "an engine gives out the nodes that the spec names, whatever the host has become"
PLACE = "how-to/cdi.md"


def check(facts: Facts) -> Finding | None:
    """Judge the specs of amd.com/gpu."""
    cdi = facts.cdi
    if cdi.broken:
        return bad(f"engines leave a spec out: {cdi.broken[0]}", fix=_replace(cdi.broken[0]))
    if cdi.conflicts:
        return None
    if not cdi.paths:
        return note("no CDI spec offers amd.com/gpu, for engines that use CDI", fix="sudo amd-ctk cdi generate")
    if cdi.untrue:
        # A spec is compared with what the host has, so that has to be right first.
        is_host_well = facts.gpus.gpus and not facts.gpus.node_problems
        return bad(cdi.untrue[0], fix="sudo amd-ctk cdi refresh") if is_host_well else None
    return _judge_true(cdi)


def _judge_true(cdi: CdiFacts) -> Finding:
    words = f"{', '.join(cdi.paths)} says what this host has"
    if cdi.broken_of_others:
        other = cdi.broken_of_others[0]
        return note(f"{words}; engines leave out {other}", fix=f"correct or move {_path_of(other)}")
    return ok(words)


def _replace(broken: str) -> str:
    path = _path_of(broken)
    generate = "sudo amd-ctk cdi generate"
    return generate if path == DEFAULT_OUTPUT else f"sudo rm {quote(path)} && {generate}"


def _path_of(broken: str) -> str:
    return broken.partition(": ")[0]
