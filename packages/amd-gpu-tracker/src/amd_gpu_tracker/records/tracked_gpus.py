"""What the policy records of a host's GPUs, and whether they are still these."""

from __future__ import annotations

from amd_gpu_tracker.errors import GpusChanged
from amd_gpu_tracker.records.lease import gpu_key
from amd_gpu_tracker.records.policy import TrackedGpu
from amdgpu_discovery.drm import AMDGPU_PCI_DEVICES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from amd_gpu_tracker.records.policy import Policy
    from amdgpu_discovery.host import Host
    from amdgpu_discovery.location import GpuLocation


def require_same_gpus(policy: Policy, present: Iterable[TrackedGpu]) -> None:
    """Refuse to go on with other GPUs than those for which a policy was decided; GpusChanged."""
    if sorted(map(_identity, policy.gpus)) != sorted(map(_identity, present)):
        raise GpusChanged


def _identity(gpu: TrackedGpu) -> tuple[str, str, str, int]:
    """Return what one GPU, partitioned in one way, keeps."""
    return gpu.key, gpu.unique_id, gpu.partition, gpu.partition_total


def read_tracked_gpus(host: Host, gpus: Sequence[GpuLocation]) -> tuple[TrackedGpu, ...]:
    """Return what the policy records of the GPUs of a host, all of them shared."""
    partitions = {address: _read_partition(host, address) for address in {str(gpu.pci_address) for gpu in gpus}}
    return tuple(
        TrackedGpu(
            key=gpu_key(gpu),
            # The PCI function's comes first: newer drivers give partitions their own, but no driver makes a new GPU.
            unique_id=f"0x{gpu.pci_unique_id or gpu.kfd_unique_id:x}",
            partition=partitions[str(gpu.pci_address)],
            partition_total=gpu.partition_total,
        )
        for gpu in gpus
    )


def _read_partition(host: Host, address: str) -> str:
    device = f"{AMDGPU_PCI_DEVICES}/{address}"
    compute = host.read_attribute(f"{device}/current_compute_partition")
    memory = host.read_attribute(f"{device}/current_memory_partition")
    return f"{compute}_{memory}".lower() if compute or memory else ""
