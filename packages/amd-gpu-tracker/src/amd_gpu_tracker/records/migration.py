"""Take over what the original toolkit (1.x) knew: whether it tracked, and which GPUs were exclusive.

Its containers are not taken over: nothing it wrote down proves that one of them lives.
"""

from __future__ import annotations

from amd_gpu_tracker.records.identity import read_tracked_gpus
from amd_gpu_tracker.records.policy import Policy
from amdgpu_discovery.errors import DriverUnavailable
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.plain_json import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.host import Host

FORMER_FILE = "/var/log/gpu-tracker.json"
# How it wrote `exclusive`; 0 was shared.
FORMER_EXCLUSIVE = 1


def read_former_policy(host: Host) -> Policy | None:
    """Return the policy in the original's file; None where there is none, or one that cannot be taken over (yet)."""
    try:
        document = loads(host.read(FORMER_FILE))
        gpus = locate_gpus(host)
        exclusive = [gpu for gpu in gpus if _was_exclusive(document, gpu)]
        enabled = bool(document["enabled"])
    except (OSError, AttributeError, KeyError, TypeError, ValueError, DriverUnavailable):
        return None
    policy = Policy(enabled=enabled, gpus=read_tracked_gpus(host, gpus) if enabled else ())
    keys = [policy.gpus[gpu.number].key for gpu in exclusive] if enabled else []
    return policy.with_accessibility(keys, exclusive=True)


def _was_exclusive(document: dict[str, Any], gpu: GpuLocation) -> bool:
    """Return whether the GPU was exclusive that had this number and this id; numbers alone may have moved."""
    former = document["gpusStatus"].get(str(gpu.number))
    same = former is not None and int(former["uuid"], 16) in (gpu.kfd_unique_id, gpu.pci_unique_id)
    return same and former["accessibility"] == FORMER_EXCLUSIVE
