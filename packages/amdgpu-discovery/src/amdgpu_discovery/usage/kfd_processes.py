"""Reads KFD's own accounting: which processes compute on which GPU.

Source: drivers/gpu/drm/amd/amdkfd/kfd_process.c. Every process that has opened /dev/kfd has files for each GPU that its
device cgroup allows, whether it uses the GPU or not. So only values above zero count.
"""

from __future__ import annotations

from amdgpu_discovery.driver.kfd_topology import KFD_PROCESSES
from amdgpu_discovery.usage.amounts import parse_count
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amdgpu_discovery.gpu import Gpu
    from amdgpu_discovery.host import Host

CONTEXT = "context_"
# The kernel numbers contexts with 16 bits; programs make a handful.
MOST_CONTEXTS = 64


class ProcessUse(Value):
    """What one process uses of one GPU.

    Attributes:
        pid: Id of the process; 0 for what only KFD counts if the caller is in another pid namespace than KFD's.
        gpu: Number of the GPU.
        vram_bytes: Video memory.
        gtt_bytes: System memory that the GPU uses for it.
        compute_units: Compute units that have work of this process at the moment of reading.
        sdma_us: For how many microseconds the copy engines have worked for it.
        engines: Names of engines, each with the nanoseconds for which it has worked for this process.
        is_partition_told: Whether the kernel shows which partition of the PCI function it is; a container may give any
            name to a render node.
        limit_bytes: The limit of its cgroup on memory of this GPU's board; None without one.
        charged_bytes: How much counts towards that limit, for all processes of the cgroup together.
    """

    pid: int
    gpu: int
    vram_bytes: int = 0
    gtt_bytes: int = 0
    compute_units: int = 0
    sdma_us: int = 0
    engines: tuple[tuple[str, int], ...] = ()
    is_partition_told: bool = True
    limit_bytes: int | None = None
    charged_bytes: int | None = None


def read_kfd_uses(host: Host, gpus: Sequence[Gpu]) -> list[ProcessUse]:
    """Return what processes use of these GPUs for computing, by process id in the first pid namespace.

    A process that ends meanwhile counts as one that uses nothing.
    """
    number_by_id = {gpu.gpu_id: gpu.number for gpu in gpus if gpu.gpu_id}
    places = [(pid, path, gpu_id) for pid in _pids(host) for path in _contexts(host, pid) for gpu_id in number_by_id]
    vram = _read(host, [f"{path}/vram_{gpu_id}" for _, path, gpu_id in places])
    units = _read(host, [f"{path}/stats_{gpu_id}/cu_occupancy" for _, path, gpu_id in places])
    used = [
        (*place, in_vram, at_work)
        for place, in_vram, at_work in zip(places, vram, units, strict=True)
        if in_vram or at_work
    ]
    # The kernel inspects the queues for each of these reads, so they are left out for processes that use nothing.
    copying = _read(host, [f"{path}/sdma_{gpu_id}" for _, path, gpu_id, _, _ in used])
    uses: dict[tuple[int, int], ProcessUse] = {}
    for (pid, _, gpu_id, in_vram, at_work), copied in zip(used, copying, strict=True):
        gpu = number_by_id[gpu_id]
        other = uses.get((pid, gpu), ProcessUse(pid=pid, gpu=gpu))
        uses[pid, gpu] = other.replace(
            vram_bytes=other.vram_bytes + in_vram,
            compute_units=other.compute_units + at_work,
            sdma_us=other.sdma_us + copied,
        )
    return list(uses.values())


def has_kfd_memory(host: Host, gpu_ids: Sequence[str]) -> bool:
    """Return whether a process has memory of one of these GPUs for computing."""
    places = [(path, gpu_id) for pid in _pids(host) for path in _contexts(host, pid) for gpu_id in gpu_ids]
    return any(_read(host, [f"{path}/vram_{gpu_id}" for path, gpu_id in places]))


def _pids(host: Host) -> list[int]:
    return sorted(int(name) for name in host.names(KFD_PROCESSES) if name.isdecimal())


def _contexts(host: Host, pid: int) -> list[str]:
    """Return the directories of a process: since KFD 1.19, its second contexts have one each, below its own."""
    own = f"{KFD_PROCESSES}/{pid}"
    names = sorted(name for name in host.names(own) if name.startswith(CONTEXT) and name[len(CONTEXT) :].isdecimal())
    return [own, *(f"{own}/{name}" for name in names[:MOST_CONTEXTS])]


def _read(host: Host, paths: list[str]) -> list[int]:
    return [parse_count(text) for text in host.read_attributes(paths)]
