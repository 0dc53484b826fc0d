"""Do running containers have the numbers of today?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, not_checked, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts
    from amd_ctk.doctor.facts.containers import StaleContainer

WHY = "a container keeps the device numbers with which it was started, and the driver may have given out others since"
PLACE = "explanation/access.md#the-device-cgroup-is-the-gate"
# A part of the path of a bundle, and the engine that makes such paths.
RESTARTS = {
    "/io.containerd.runtime.v2.task/moby/": "docker restart",
    "/overlay-containers/": "podman restart",
    "/vfs-containers/": "podman restart",
    # The kubelet makes another one.
    "/io.containerd.runtime.v2.task/k8s.io/": "crictl stop",
}


def check(facts: Facts) -> Finding | None:
    """Judge the devices in the specs of running containers."""
    if facts.stale_containers is None:
        return not_checked("the containers that run", needs="root")
    for stale in facts.stale_containers:
        return bad(
            f"container {stale.container_id[:12]} has {stale.path} as {stale.inside}, and the host has {stale.outside}",
            fix=f"start it again: {_restart(stale)}",
        )
    return ok("every container that runs has the host's device numbers")


def _restart(stale: StaleContainer) -> str:
    short_id = stale.container_id[:12]
    known = [command for part, command in RESTARTS.items() if part in stale.bundle]
    return f"{known[0]} {short_id}" if known else f"restart {short_id} with the engine that started it"
