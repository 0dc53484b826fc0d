"""Reads how much memory each GPU has, how much of it is used, and how busy the GPU is.

Sources: drivers/gpu/drm/amd/amdgpu/amdgpu_vram_mgr.c, amdgpu_gtt_mgr.c, pm/amdgpu_pm.c. The files belong to the PCI
function, so they do not describe a single partition. A driver that hangs may not answer.
"""

from __future__ import annotations

import errno

from amdgpu_discovery.driver.drm import AMDGPU_PCI_DEVICES
from amdgpu_discovery.untrusted.bounded_files import FileAnswer, read_in_child
from amdgpu_discovery.usage.amounts import parse_optional
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from amdgpu_discovery.gpu import Gpu
    from amdgpu_discovery.host import Host

# For all GPUs together; a GPU answers in milliseconds. gpu_busy_percent has 0 to 100, and is missing if the power
# management of a GPU does not measure it.
TOTALS_SECONDS = 2.0
FILES = ("mem_info_vram_total", "mem_info_vram_used", "mem_info_gtt_total", "mem_info_gtt_used", "gpu_busy_percent")


class GpuTotals(Value):
    """What a GPU reports about itself; None if it does not report it.

    Attributes:
        vram_total: Bytes of video memory; for an APU those that the firmware has set aside.
        vram_used: Bytes of it in use.
        gtt_total: Bytes of system memory that the GPU may use.
        gtt_used: Bytes of those in use.
        busy_percent: How busy it was in the last moments, in percent.
        is_hanging: Whether the driver did not answer.
    """

    vram_total: int | None = None
    vram_used: int | None = None
    gtt_total: int | None = None
    gtt_used: int | None = None
    busy_percent: int | None = None
    is_hanging: bool = False


def read_totals(host: Host, gpus: Sequence[Gpu], *, hanging: Container[str] = ()) -> tuple[GpuTotals, ...]:
    """Return what the kernel reports about each GPU, in bounded time; for a partition only its size is known.

    The GPUs at the PCI addresses `hanging` are not asked again: each attempt would leave a process behind.
    """
    read = [gpu for gpu in gpus if gpu.partition_total <= 1 and str(gpu.pci_address) not in hanging]
    paths = {
        gpu.number: [host.path(f"{AMDGPU_PCI_DEVICES}/{gpu.pci_address}/{name}") for name in FILES] for gpu in read
    }
    answers = read_in_child(list(paths.values()), seconds=TOTALS_SECONDS)
    answers_by_gpu = {number: [answers.get(path, FileAnswer()) for path in of_gpu] for number, of_gpu in paths.items()}
    return tuple(
        _totals(gpu, answers_by_gpu[gpu.number])
        if gpu.number in answers_by_gpu
        else GpuTotals(vram_total=gpu.vram_bytes, is_hanging=str(gpu.pci_address) in hanging)
        for gpu in gpus
    )


def _totals(gpu: Gpu, answers: Sequence[FileAnswer]) -> GpuTotals:
    vram_total, vram_used, gtt_total, gtt_used, busy = (parse_optional(answer.text) for answer in answers)
    return GpuTotals(
        vram_total=vram_total or gpu.vram_bytes,
        vram_used=vram_used,
        gtt_total=gtt_total,
        gtt_used=gtt_used,
        busy_percent=busy if busy is None else min(busy, 100),
        is_hanging=any(answer.error == errno.ETIMEDOUT for answer in answers),
    )
