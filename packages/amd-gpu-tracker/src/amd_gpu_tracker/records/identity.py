"""Are the GPUs those for which accessibility was set? Looked at once for each state of the driver and of the policy.

Partition modes and ids are two dozen files on a host with eight GPUs, which take longer to read than all else that a
claim does. They change only together with what KFD shows: another compute partition makes new nodes and counts its
generation up, another memory partition or board goes with the driver, whose directories are others when it comes back
(drivers/gpu/drm/amd/amdkfd/kfd_topology.c).
"""

from __future__ import annotations

from amd_gpu_tracker import POLICY_FILE
from amd_gpu_tracker.errors import GpusChanged
from amd_gpu_tracker.records.policy import TrackedGpu
from amdgpu_discovery.drm import AMDGPU_PCI_DEVICES
from amdgpu_discovery.errors import FileError
from amdgpu_discovery.files import read_file, replace_file
from amdgpu_discovery.kfd_topology import TOPOLOGY, read_generation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from amd_gpu_tracker.life.processes import Processes
    from amd_gpu_tracker.records.policy import Policy
    from amd_gpu_tracker.records.state import State
    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.host import Host


def take_stamp(state: State, processes: Processes) -> bytes:
    """Return what tells one state of the driver and of the policy from every other, b"" where that cannot be told.

    To be taken before the policy is read, so that what changes meanwhile is looked at again.
    """
    nodes = state.host.stat(f"{TOPOLOGY}/nodes")
    policy = state.host.stat(POLICY_FILE)
    generation = read_generation(state.host)
    if nodes is None or policy is None or not generation:
        return b""
    version = f"{policy.st_dev} {policy.st_ino} {policy.st_size} {policy.st_mtime_ns}"
    return f"{processes.boot_id} {nodes.st_dev} {nodes.st_ino} {generation} {version}\n".encode()


def require_tracked_gpus(state: State, policy: Policy, stamp: bytes, wanted: Iterable[GpuLocation]) -> None:
    """Refuse to go on with other GPUs than those of the policy; GpusChanged. The caller holds the lock.

    `wanted` are GPUs that were located before: until the lock was free the administrator may have made others of them
    and a policy for those.
    """
    partitions = {gpu.key: gpu.partition_total for gpu in policy.gpus}
    is_known = all(partitions.get(gpu.key) == gpu.partition_total for gpu in wanted)
    if is_known and stamp and stamp == _read_stamp(state):
        return
    from amdgpu_discovery.numbering import hidden_numbers, locate_gpus

    if not is_known:
        raise GpusChanged
    gpus = locate_gpus(state.host)
    require_same_gpus(state.host, policy, gpus)
    # What is written down counts for processes that may use more GPUs, too.
    if stamp and not hidden_numbers(gpus):
        _write_stamp(state, stamp)


def _read_stamp(state: State) -> bytes:
    try:
        return read_file(state.stamp_path)
    except OSError:
        return b""


def _write_stamp(state: State, stamp: bytes) -> None:
    try:
        replace_file(state.stamp_path, stamp, mode=0o644)
    except FileError:  # a full disk: the next claim looks again
        return


def require_same_gpus(host: Host, policy: Policy, gpus: Sequence[GpuLocation]) -> None:
    """Refuse to go on with other GPUs than those for which a policy was decided; GpusChanged.

    `gpus` are those that this process may use; of hidden ones only the number can be compared.
    """
    tracked = set(map(_identity, policy.gpus))
    present = set(map(_identity, read_tracked_gpus(host, gpus)))
    total = gpus[0].host_total if gpus else 0
    if len(policy.gpus) != total or not present <= tracked:
        raise GpusChanged


def _identity(gpu: TrackedGpu) -> tuple[str, str, str, int]:
    """Return what one GPU, partitioned in one way, keeps."""
    return gpu.key, gpu.unique_id, gpu.partition, gpu.partition_total


def read_tracked_gpus(host: Host, gpus: Sequence[GpuLocation]) -> tuple[TrackedGpu, ...]:
    """Return what the policy records of the GPUs of a host, all of them shared."""
    keys = [(gpu.key, str(gpu.pci_address)) for gpu in gpus]
    partitions = _read_partitions(host, dict.fromkeys(address for _, address in keys))
    return tuple(
        [
            TrackedGpu(
                key=key,
                # The PCI function's comes first: newer drivers give partitions ids of their own, but none to a GPU.
                unique_id=f"0x{gpu.pci_unique_id or gpu.kfd_unique_id:x}",
                partition=partitions[address],
                partition_total=gpu.partition_total,
            )
            for gpu, (key, address) in zip(gpus, keys, strict=True)
        ]
    )


def _read_partitions(host: Host, addresses: Iterable[str]) -> dict[str, str]:
    """Return the compute and memory partition modes by PCI address, "" for hardware without partitions."""
    addresses = list(addresses)
    modes = [
        host.read_attributes([f"{AMDGPU_PCI_DEVICES}/{address}/current_{each}_partition" for address in addresses])
        for each in ("compute", "memory")
    ]
    return {
        address: f"{compute}_{memory}".lower() if compute or memory else ""
        for address, compute, memory in zip(addresses, *modes, strict=True)
    }
