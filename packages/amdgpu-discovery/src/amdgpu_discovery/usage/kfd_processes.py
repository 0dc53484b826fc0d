"""Read KFD's own accounting: which processes compute on which GPU.

Source: drivers/gpu/drm/amd/amdkfd/kfd_process.c. Every process that has opened /dev/kfd has files for each GPU that its
device cgroup allows, whatever it does there; so only what is more than nothing counts.
"""

from __future__ import annotations

from amdgpu_discovery.usage.amounts import parse_count
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amdgpu_discovery.host import Host

KFD_PROCESSES = "/sys/class/kfd/kfd/proc"


class KfdUse(Value):
    """What a process uses of a GPU for computing.

    Attributes:
        pid: Id of the process, in the first pid namespace.
        gpu_id: KFD's number of the GPU or partition.
        vram_bytes: Memory that it has allocated.
        compute_units: Compute units that have work of this process at the moment of reading.
        sdma_us: For how many microseconds the copy engines have worked for it.
    """

    pid: int
    gpu_id: int
    vram_bytes: int
    compute_units: int
    sdma_us: int


def read_kfd_uses(host: Host, gpu_ids: Sequence[int]) -> list[KfdUse]:
    """Return what processes use of these GPUs, by process id; a process that ends meanwhile uses nothing."""
    pids = sorted(int(name) for name in host.names(KFD_PROCESSES) if name.isdecimal())
    pairs = [(pid, gpu_id) for pid in pids for gpu_id in gpu_ids]
    vram = _read(host, [f"{KFD_PROCESSES}/{pid}/vram_{gpu_id}" for pid, gpu_id in pairs])
    units = _read(host, [f"{KFD_PROCESSES}/{pid}/stats_{gpu_id}/cu_occupancy" for pid, gpu_id in pairs])
    used = [
        (pid, gpu_id, in_vram, at_work)
        for (pid, gpu_id), in_vram, at_work in zip(pairs, vram, units, strict=True)
        if in_vram or at_work
    ]
    # For each of these the kernel asks the queues, so those that use nothing are not asked.
    copying = _read(host, [f"{KFD_PROCESSES}/{pid}/sdma_{gpu_id}" for pid, gpu_id, _, _ in used])
    return [
        KfdUse(pid=pid, gpu_id=gpu_id, vram_bytes=in_vram, compute_units=at_work, sdma_us=copied)
        for (pid, gpu_id, in_vram, at_work), copied in zip(used, copying, strict=True)
    ]


def _read(host: Host, paths: list[str]) -> list[int]:
    return [parse_count(text) for text in host.read_attributes(paths)]
