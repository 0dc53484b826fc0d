"""Finds the GPUs of a host, with everything that the driver reports about them."""

from __future__ import annotations

from amdgpu_discovery.driver.drm import (
    AMDGPU_PCI_DEVICES,
    DRM_MAJOR,
    DrmDevice,
    FoundGpu,
    amdgpu_pci_addresses,
    read_drm_devices,
)
from amdgpu_discovery.driver.kfd_topology import count_nodes, parse_number, read_gpu_id, read_vram_bytes
from amdgpu_discovery.gpu import (
    NO_RENDER_NODE,
    NOT_IN_KFD,
    DeviceNumber,
    Gpu,
    GpuLocation,
    PciAddress,
    UnnumberedGpu,
)
from amdgpu_discovery.host import Host
from amdgpu_discovery.numbering import join_gpus, number_gpus, parse_hexadecimal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# LLVM's processors that exist only in APUs (AMDGPU back end, "Processors"); MI300A shares gfx942 with MI300X.
APU_TARGETS = frozenset(
    (
        *("gfx700", "gfx703", "gfx705", "gfx801", "gfx810"),
        *("gfx902", "gfx909", "gfx90c", "gfx1013", "gfx1033", "gfx1035", "gfx1036", "gfx1037", "gfx1103"),
        *("gfx1150", "gfx1151", "gfx1152", "gfx1153"),
    )
)
# MI300A, which has the target of MI300X; Raven Ridge and Picasso, for which old kernels report no target (amdgpu_drv.c,
# pciidlist).
APU_DEVICE_IDS = frozenset((0x74A0, 0x15DD, 0x15D8))


def find_gpus(host: Host) -> list[Gpu]:
    """Return every GPU and partition that this process may use, by number. Raises the errors of `locate_gpus`."""
    found, topology = join_gpus(host)
    numbered = zip(found, number_gpus(host, found, topology.hidden), strict=True)
    return [_describe(host, gpu, location) for gpu, location in numbered]


def find_unnumbered_gpus(host: Host) -> list[UnnumberedGpu]:
    """Return the GPUs of the amdgpu driver that have no number, by PCI address. No request can name them.

    If the device cgroup of this process hides GPUs, those that may be the hidden ones are left out.
    """
    found, topology = join_gpus(host)
    numbered = {gpu.pci_address for gpu in found}
    if topology.hidden:
        # Imported here, because most processes may use every GPU.
        from amdgpu_discovery.driver.hidden_gpus import find_hidden_functions

        numbered |= find_hidden_functions(host, found)
    slots_in_kfd = {node.slot for node in topology.gpu_nodes}
    device_by_address = {device.pci_address: device for device in read_drm_devices(host)}
    return [
        _describe_unnumbered(
            host,
            address,
            device_by_address.get(address),
            NO_RENDER_NODE if (address.domain, address.bus, address.device) in slots_in_kfd else NOT_IN_KFD,
        )
        for address in amdgpu_pci_addresses(host)
        if address not in numbered
    ]


def find_processors(host: Host, gpus: Sequence[GpuLocation]) -> int:
    """Return how many of KFD's nodes are processors, on a host with these GPUs."""
    return count_nodes(host) - gpus[0].host_total if gpus else 1


def format_gfx_target(version: int) -> str:
    """Return the compilers' name for KFD's `gfx_target_version`: 90402 is gfx942, 90010 is gfx90a, 0 is ""."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}" if version else ""


def _describe(host: Host, found: FoundGpu, location: GpuLocation) -> Gpu:
    node = found.node
    target = format_gfx_target(node.read("gfx_target_version"))
    parent = found.parent.path if found.parent else ""
    card_path = location.card_path
    device_id = node.read("device_id")
    return Gpu(
        **location.as_dict(),
        render_node=_drm_number(location.render_path, location.render_minor),
        card_node=_drm_number(card_path, location.card_minor or 0) if card_path else None,
        gpu_id=read_gpu_id(host, node),
        gfx_target=target,
        device_id=device_id,
        vram_bytes=_read_vram_bytes(host, found, location),
        # The kernel prints -1, which is None here, if the firmware does not report the node.
        numa_node=parse_number(host.read_attribute(f"{parent}/numa_node")) if parent else None,
        compute_partition=host.read_attribute(f"{parent}/current_compute_partition") if parent else "",
        memory_partition=host.read_attribute(f"{parent}/current_memory_partition") if parent else "",
        cu_count=node.read("simd_count") // (node.read("simd_per_cu") or 1),
        # Old kernels have one node for the processors and the GPU of an APU.
        is_apu=target in APU_TARGETS or device_id in APU_DEVICE_IDS or node.read("cpu_cores_count") > 0,
        xgmi_hive=node.read("hive_id") or None,
    )


def _drm_number(path: str, minor: int) -> DeviceNumber:
    """Return the number of a card or render node. Its name has the minor (drm_sysfs.c), so sysfs is not read."""
    return DeviceNumber(path=path, major=DRM_MAJOR, minor=minor)


def _read_vram_bytes(host: Host, found: FoundGpu, location: GpuLocation) -> int | None:
    vram = read_vram_bytes(host, found.node)
    if vram is None and found.parent and location.partition_total == 1:
        # Another part of the driver keeps the same number. For a partitioned GPU it would be that of the whole GPU.
        return parse_number(host.read_attribute(f"{found.parent.path}/mem_info_vram_total"))
    return vram


def _describe_unnumbered(host: Host, address: PciAddress, device: DrmDevice | None, reason: str) -> UnnumberedGpu:
    device_id = host.read_attribute(f"{AMDGPU_PCI_DEVICES}/{address}/device")
    return UnnumberedGpu(
        pci_address=address,
        device_id=parse_hexadecimal(device_id),
        render_minor=device.render_minor if device else None,
        card_minor=device.card_minor if device else None,
        reason=reason,
    )
