"""Read how much memory each GPU has, how much of it is used, and how busy the GPU is.

Sources: drivers/gpu/drm/amd/amdgpu/amdgpu_vram_mgr.c, amdgpu_gtt_mgr.c, pm/amdgpu_pm.c. The files belong to the PCI
function, so they say nothing of one partition.
"""

from __future__ import annotations

from amdgpu_discovery.drm import AMDGPU_PCI_DEVICES
from amdgpu_discovery.usage.amounts import parse_optional
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amdgpu_discovery.gpu import Gpu
    from amdgpu_discovery.host import Host

# The latter is 0 to 100, and absent where the power management of a GPU does not measure it.
FILES = ("mem_info_vram_total", "mem_info_vram_used", "mem_info_gtt_total", "mem_info_gtt_used", "gpu_busy_percent")


class GpuTotals(Value):
    """What a GPU says of itself; None where it does not say.

    Attributes:
        vram_total: Bytes of video memory; of an APU what the firmware has set aside.
        vram_used: Bytes of it that are used.
        gtt_total: Bytes of system memory that the GPU may use.
        gtt_used: Bytes of those that it uses.
        busy_percent: How much of the last moments it has worked.
    """

    vram_total: int | None = None
    vram_used: int | None = None
    gtt_total: int | None = None
    gtt_used: int | None = None
    busy_percent: int | None = None


def read_totals(host: Host, gpu: Gpu) -> GpuTotals:
    """Return what the kernel says of one GPU; of a partition only its size is known."""
    if gpu.partition_total > 1:
        return GpuTotals(vram_total=gpu.vram_bytes)
    paths = [f"{AMDGPU_PCI_DEVICES}/{gpu.pci_address}/{name}" for name in FILES]
    vram_total, vram_used, gtt_total, gtt_used, busy = map(parse_optional, host.read_attributes(paths))
    return GpuTotals(
        vram_total=vram_total or gpu.vram_bytes,
        vram_used=vram_used,
        gtt_total=gtt_total,
        gtt_used=gtt_used,
        busy_percent=busy if busy is None else min(busy, 100),
    )
