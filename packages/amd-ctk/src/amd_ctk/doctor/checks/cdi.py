"""The CDI specs."""

from __future__ import annotations

from shlex import quote

from amd_ctk.cdi.generate_options import DEFAULT_OUTPUT
from amd_ctk.doctor.check import Finding, bad, check, note, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts
    from amd_ctk.doctor.facts.cdi import CdiFacts


@check(
    "cdi",
    why="an engine gives out the nodes that the spec names, whatever the host has become",
    see="how-to/cdi.md",
)
def check_cdi(facts: Facts) -> Finding | None:
    """Is the CDI spec true of this host?"""
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
    return _judge_true_spec(cdi)


def _judge_true_spec(cdi: CdiFacts) -> Finding:
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


@check(
    "cdi-names",
    why="of two files in one directory with the same device engines use neither; /run/cdi beats /etc/cdi",
    see="reference/cdi.md",
)
def check_cdi_names(facts: Facts) -> Finding | None:
    """Does one spec hide another?"""
    cdi = facts.cdi
    if cdi.conflicts:
        return bad(f"two specs define {cdi.conflicts[0]}, and no engine takes either", fix=_set_aside(cdi.conflicting))
    if cdi.shadowed:
        return note(f"{cdi.shadowed[0]} is overridden by another spec", fix="amd-ctk cdi list --specs")
    return ok("no spec hides another") if cdi.paths else None


def _set_aside(paths: tuple[str, ...]) -> str:
    """Return the command after which one of these files is left, the toolkit's own where it is among them."""
    path = next((path for path in paths if path != DEFAULT_OUTPUT), "")
    # Engines read *.json, *.yaml and *.yml.
    return f"sudo mv {quote(path)} {quote(f'{path}.off')}"
