"""Do the daemon's command line and its file say the same thing twice?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

ENGINE = "docker"
WHY = "dockerd does not start where a directive stands both in daemon.json and on its command line"
PLACE = "how-to/configure-engines.md"


def check(facts: Facts) -> Finding | None:
    """Judge the daemon's unit against daemon.json."""
    taken = facts.docker.taken_directives
    if not taken:
        return None
    return bad(
        f"the unit of docker has {taken[0]}, and daemon.json says it too: dockerd does not start with both",
        fix="sudo systemctl edit docker.service, and take the option out",
    )
