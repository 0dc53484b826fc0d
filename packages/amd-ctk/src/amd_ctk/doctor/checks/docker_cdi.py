"""Does Docker read CDI specs?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, note, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

ENGINE = "docker"
WHY = "'--device amd.com/gpu=0' is refused"
PLACE = "reference/engines.md#what-to-know-beside-the-table"
FIRST = (25,)
ON_BY_DEFAULT = (28, 2)


def check(facts: Facts) -> Finding | None:
    """Say whether --device takes names of CDI devices."""
    docker = facts.docker
    if not docker.version:
        return None
    if docker.version < FIRST:
        return note(f"Docker {docker.version_words} has no CDI; 25 is the first that has", fix="use --runtime=amd")
    is_on = docker.file_cdi if docker.file_cdi is not None else docker.version >= ON_BY_DEFAULT
    if not is_on:
        return note("Docker's CDI is off", fix=f"{docker.configure_command} --cdi && {docker.restart_command}")
    return ok("Docker reads CDI specs")
