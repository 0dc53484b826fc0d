"""What the administrator decided: whether GPUs are tracked, and which of them are exclusive."""

from __future__ import annotations

from amd_gpu_tracker.lease import gpu_key
from amdgpu_discovery.drm import AMDGPU_PCI_DEVICES
from amdgpu_discovery.plain_json import dumps, loads
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from amdgpu_discovery.host import Host
    from amdgpu_discovery.location import GpuLocation

VERSION = 1
SHARED = "shared"
EXCLUSIVE = "exclusive"


class TrackedGpu(Value):
    """A GPU for which accessibility is set, told from every other by what neither a reboot nor a driver changes."""

    # `gpu_key` of the GPU: its PCI address and its rank among the partitions there.
    key: str
    # In hexadecimal, as 64 bits are too many for some readers of JSON; "0x0" where the hardware has none.
    unique_id: str
    # "cpx_nps4", "" for hardware without partitions.
    partition: str
    partition_total: int
    exclusive: bool = False

    def is_same_gpu(self, other: TrackedGpu) -> bool:
        """Return whether both are one GPU, partitioned in one way."""
        ours = (self.key, self.unique_id, self.partition, self.partition_total)
        return ours == (other.key, other.unique_id, other.partition, other.partition_total)


class Policy(Value):
    """The state that outlives reboots."""

    enabled: bool = False
    gpus: tuple[TrackedGpu, ...] = ()

    @property
    def exclusive_keys(self) -> frozenset[str]:
        """Return the keys of the exclusive GPUs."""
        return frozenset(gpu.key for gpu in self.gpus if gpu.exclusive)

    def require_same_gpus(self, present: Sequence[TrackedGpu]) -> None:
        """Refuse to go on with other GPUs than those for which this was decided."""
        ours, theirs = (sorted(gpus, key=lambda gpu: gpu.key) for gpus in (self.gpus, present))
        if len(ours) != len(theirs) or not all(map(TrackedGpu.is_same_gpu, ours, theirs)):
            from amd_gpu_tracker.errors import GpusChanged

            raise GpusChanged

    def with_accessibility(self, keys: Iterable[str], *, exclusive: bool) -> Policy:
        """Return the policy with these GPUs exclusive or shared."""
        chosen = frozenset(keys)
        return self.replace(
            gpus=tuple(gpu.replace(exclusive=exclusive) if gpu.key in chosen else gpu for gpu in self.gpus)
        )


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


def format_policy(policy: Policy) -> bytes:
    """Return a policy as the content of its file."""
    gpus = [{**gpu.as_dict(), "exclusive": gpu.exclusive} for gpu in policy.gpus]
    return dumps({"version": VERSION, "enabled": policy.enabled, "gpus": gpus}) + b"\n"


def parse_policy(content: bytes, *, path: str) -> Policy:
    """Read the content of the policy's file; StateError names it where it is not what `format_policy` wrote."""
    try:
        return _parse(loads(content))
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        from amd_gpu_tracker.errors import StateError

        raise StateError(
            f"the GPU Tracker's state {path} cannot be understood: {error}",
            hint="mend it with 'amd-ctk gpu-tracker reset'",
        ) from error


def _parse(document: dict[str, Any]) -> Policy:
    if document.get("version") != VERSION:
        raise ValueError(f"it is not version {VERSION} of the tracker's state")
    if type(document["enabled"]) is not bool:
        raise ValueError("'enabled' is not true or false")
    return Policy(enabled=document["enabled"], gpus=tuple(_parse_gpu(fields) for fields in document["gpus"]))


_GPU_FIELDS = {"key": str, "unique_id": str, "partition": str, "partition_total": int, "exclusive": bool}


def _parse_gpu(fields: dict[str, Any]) -> TrackedGpu:
    for name, kind in _GPU_FIELDS.items():
        if type(fields[name]) is not kind:
            raise ValueError(f"'{name}' of a GPU is not of the right kind")
    return TrackedGpu(**fields)


def _read_partition(host: Host, address: str) -> str:
    device = f"{AMDGPU_PCI_DEVICES}/{address}"
    compute = host.read_attribute(f"{device}/current_compute_partition")
    memory = host.read_attribute(f"{device}/current_memory_partition")
    return f"{compute}_{memory}".lower() if compute or memory else ""
