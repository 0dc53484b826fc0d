"""What the driver says about a GPU, and about one that has no number; location.py says where GPUs are."""

from __future__ import annotations

from amdgpu_discovery.location import GpuLocation
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amdgpu_discovery.location import DeviceNumber, PciAddress


class Gpu(GpuLocation):
    """One GPU or partition with everything the driver says about it."""

    render_node: DeviceNumber
    card_node: DeviceNumber | None
    # KFD's 16-bit hash of the slot and mode; the GUID column of rocm-smi. Not a unique id.
    gpu_id: int
    # "gfx942"; "" where the kernel does not say.
    gfx_target: str
    # PCI device id, 0x74a1 for MI300X.
    device_id: int
    # Bytes this GPU or partition can use: on an APU its share of system memory. None where unknown.
    vram_bytes: int | None
    # None where unknown.
    numa_node: int | None
    # "SPX".."CPX" and "NPS1".."NPS8"; "" on hardware that cannot be partitioned.
    compute_partition: str
    memory_partition: str
    cu_count: int
    is_apu: bool
    # Equal for GPUs that reach each other by XGMI; None without.
    xgmi_hive: int | None


class UnnumberedGpu(Value):
    """A GPU of the amdgpu driver without a KFD node: fit for graphics, not for ROCm; no container can ask for it."""

    pci_address: PciAddress
    device_id: int
    render_minor: int | None
    card_minor: int | None
