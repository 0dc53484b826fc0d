"""Are kernels that a first run compiles kept?"""

from __future__ import annotations

import re

from amd_ctk.doctor.finding import Finding, note, ok
from amd_ctk.doctor.inside.tried import name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "MIOpen, Triton and the compiler keep kernels below the home directory; lost, each first run takes minutes again"
PLACE = "how-to/troubleshoot.md#no-message-and-no-gpu"
# In the container's own words; what looks like anything else is not taken into advice.
HOME = re.compile(r"/[\w./-]{1,200}", re.ASCII)
USUAL_HOME = "/root"


def check(facts: Facts) -> Finding | None:
    """Judge whether the caches of a container with ROCm are on a volume."""
    inside = facts.inside
    if inside is None or not inside.image.has_rocm:
        return None
    home = inside.variables.get("HOME", "")
    if not HOME.fullmatch(home):
        home = USUAL_HOME
    cache = f"{home.rstrip('/')}/.cache"
    if any(cache == point or cache.startswith(f"{point}/") for point in inside.mount_points if point != "/"):
        return ok(f"{cache} is on a volume")
    return note(f"{cache} in {name_of(facts)} is lost with it", fix=f"add --volume=rocm-cache:{cache}")
