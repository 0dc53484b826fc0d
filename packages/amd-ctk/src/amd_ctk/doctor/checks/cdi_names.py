"""Does one spec hide another?"""

from __future__ import annotations

from shlex import quote

from amd_ctk.cdi.generate_options import DEFAULT_OUTPUT
from amd_ctk.doctor.finding import Finding, bad, note, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "of two files in one directory with the same device engines use neither; /run/cdi beats /etc/cdi"
PLACE = "reference/cdi.md"


def check(facts: Facts) -> Finding | None:
    """Judge whether names of amd.com/gpu are defined more than once."""
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
