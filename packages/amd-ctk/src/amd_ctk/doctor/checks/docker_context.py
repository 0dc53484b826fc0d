"""Is the engine behind `docker` another machine?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, note

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

ENGINE = "docker"
WHY = "containers get GPUs of the machine on which they run; Docker Desktop's virtual machine has none of this host"
PLACE = "reference/support.md#engines"


def check(facts: Facts) -> Finding | None:
    """Judge where containers of `docker run` really run."""
    if facts.docker.other_machine:
        words = f"'docker' talks to {facts.docker.other_machine}, which is not this machine"
        return note(words, fix="run amd-ctk doctor there, or: unset DOCKER_HOST; docker context use default")
    if "Docker Desktop" not in facts.docker.operating_system:
        return None
    return bad("'docker' talks to Docker Desktop, which runs in a virtual machine", fix="docker context use default")
