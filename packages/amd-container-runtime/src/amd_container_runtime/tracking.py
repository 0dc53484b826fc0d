"""Does the GPU Tracker have a say in this container start? Where it is disabled, that costs one short read."""

from __future__ import annotations

from amd_gpu_tracker.switch import may_be_tracking

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from amd_container_runtime.arguments import Call
    from amd_container_runtime.bundle import Bundle
    from amd_container_runtime.claim import PendingClaim
    from amd_device_spec.request import Grant
    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.host import Host


def find_claim(
    call: Call, host: Host, bundle: Bundle, granted: Grant, gpus: Sequence[GpuLocation]
) -> PendingClaim | None:
    """Return what this container has to reserve; None where that is nothing or where nothing is tracked.

    `gpus` are those of the host where they are known already.
    """
    if not (granted.gpus or _lists_devices(bundle.spec)) or not may_be_tracking(host):
        return None
    from amd_container_runtime.claim import make_claim

    return make_claim(call, host, bundle, granted=granted, gpus=gpus)


def _lists_devices(spec: dict[str, Any]) -> bool:
    linux = spec.get("linux")
    return isinstance(linux, dict) and bool(linux.get("devices"))
