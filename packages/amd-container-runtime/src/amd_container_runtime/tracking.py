"""Does the GPU Tracker have a say in this container start? Where it is disabled, that costs one short read."""

from __future__ import annotations

from amd_gpu_tracker.switch import may_be_tracking

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from amdgpu_discovery.host import Host


def may_concern_tracker(host: Host, spec: dict[str, Any], *, asks: bool) -> bool:
    """Return False where a container that `asks` for GPUs, or was given devices, has nothing to reserve."""
    return (asks or _lists_devices(spec)) and may_be_tracking(host)


def _lists_devices(spec: dict[str, Any]) -> bool:
    linux = spec.get("linux")
    return isinstance(linux, dict) and bool(linux.get("devices"))
