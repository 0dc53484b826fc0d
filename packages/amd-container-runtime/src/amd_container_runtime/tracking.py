"""Does the GPU Tracker have a say in this container start? Where it is disabled, that costs one short read."""

from __future__ import annotations

from amd_gpu_tracker.switch import may_be_tracking

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from amdgpu_discovery.host import Host

# 226 is that of DRM nodes; -1 stands for any, as None does in the rules of `--privileged`, which lists devices anyway.
GPU_MAJORS = (226, -1)


def may_concern_tracker(host: Host, spec: dict[str, Any], *, asks: bool) -> bool:
    """Return False where a container that `asks` for GPUs, or may open devices, has nothing to reserve."""
    return (asks or _opens_devices(spec)) and may_be_tracking(host)


def _opens_devices(spec: dict[str, Any]) -> bool:
    """Return whether a spec lists devices, or allows GPUs by `--device-cgroup-rule`."""
    linux = spec.get("linux")
    if not isinstance(linux, dict):
        return False
    if linux.get("devices"):
        return True
    resources = linux.get("resources")
    rules = resources.get("devices") if isinstance(resources, dict) else None
    return isinstance(rules, list) and any(
        isinstance(rule, dict) and rule.get("allow") and rule.get("major") in GPU_MAJORS for rule in rules
    )
