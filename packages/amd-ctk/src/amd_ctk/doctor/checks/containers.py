"""Do running containers have the numbers of today?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, not_checked, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "a container keeps the device numbers with which it was started, and the driver may have given out others since"
PLACE = "explanation/access.md#the-device-cgroup-is-the-gate"


def check(facts: Facts) -> Finding | None:
    """Judge the devices in the specs of running containers."""
    if facts.stale_containers is None:
        return not_checked("the containers that run", needs="root")
    for stale in facts.stale_containers:
        return bad(
            f"container {stale.container_id[:12]} has {stale.path} as {stale.inside}, and the host has {stale.outside}",
            fix=f"start it again: docker restart {stale.container_id[:12]}",
        )
    return ok("every container that runs has the host's device numbers")
