"""Is the engine behind `docker` a virtual machine?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

ENGINE = "docker"
WHY = "Docker Desktop runs containers in a virtual machine, which has no GPU of this host"
PLACE = "reference/support.md#engines"


def check(facts: Facts) -> Finding | None:
    """Judge where containers of `docker run` really run."""
    if "Docker Desktop" not in facts.docker.operating_system:
        return None
    return bad("'docker' talks to Docker Desktop, which runs in a virtual machine", fix="docker context use default")
