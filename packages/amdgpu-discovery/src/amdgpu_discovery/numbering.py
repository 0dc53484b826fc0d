"""Give every GPU and partition of a host its number.

A GPU is a KFD node that has a DRM render node. KFD knows what computes, DRM knows where it is; see
docs/explanation/numbering.md for why the order is the one it is.

sysfs has no link from a partition to its PCI function. The location's function bits hold the partition's number,
so two virtual functions of one device look alike; a function's own minor is handed out before those of its partitions.
"""

from __future__ import annotations

from amdgpu_discovery.drm import AMDGPU_DRIVER, find_drm_devices, read_drm_devices
from amdgpu_discovery.errors import DriverUnavailable
from amdgpu_discovery.gpu import GpuLocation, PciAddress
from amdgpu_discovery.kfd_topology import read_topology
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from amdgpu_discovery.drm import DrmDevice
    from amdgpu_discovery.host import Host
    from amdgpu_discovery.kfd_topology import KfdNode

    # A function's address, and its device where it has minors of its own.
    Place = tuple[PciAddress, DrmDevice | None]


class FoundGpu(Value):
    """A KFD node joined with its DRM device and with the PCI function (`parent`) it belongs to, if that is known."""

    node: KfdNode
    device: DrmDevice
    parent: DrmDevice | None
    pci_address: PciAddress
    # What orders GPUs: the parent's address, then the render minor, both as numbers.
    sort_key: tuple[tuple[int, int, int, int], int]


def locate_gpus(host: Host, *, board_ids: bool = True) -> list[GpuLocation]:
    """Return every GPU and partition by number, with only what it takes to choose among them.

    Without `board_ids` no `pci_unique_id` is read and all are 0, for those who choose by number alone. [] where the
    driver is loaded and has no GPU; DriverUnavailable where it is not loaded.
    """
    return number_gpus(host, join_gpus(host), board_ids=board_ids)


def join_gpus(host: Host) -> list[FoundGpu]:
    """Return every GPU and partition in the order of its number. Errors as `locate_gpus`."""
    topology = read_topology(host)
    if not topology.gpu_nodes:
        _require_driver(host)
        return []
    node_by_minor = {node.render_minor: node for node in topology.gpu_nodes}
    # A node may outlive its render node: KFD lets go only when the last open file is closed.
    devices = find_drm_devices(host, node_by_minor)
    partitions = [node_by_minor[device.render_minor or 0] for device in devices if not device.pci_address]
    places: Mapping[int, Place] = {}
    if partitions:
        places = place_partitions(host, partitions, devices, is_whole=topology.is_whole)
    found = [_join(node_by_minor[device.render_minor or 0], device, places) for device in devices]
    return sorted(found, key=lambda gpu: gpu.sort_key)


def number_gpus(host: Host, found: list[FoundGpu], *, board_ids: bool = True) -> list[GpuLocation]:
    """Give numbers to what `join_gpus` found."""
    siblings: dict[tuple[int, ...], list[FoundGpu]] = {}
    for gpu in found:
        siblings.setdefault(gpu.sort_key[0], []).append(gpu)
    located: list[GpuLocation] = []
    # Siblings follow one another, and dictionaries keep their order.
    for group in siblings.values():
        pci_unique_id = _read_pci_unique_id(host, group[0].parent) if board_ids else 0
        located += [
            _locate(gpu, len(located) + rank, rank, len(group), pci_unique_id) for rank, gpu in enumerate(group)
        ]
    return located


def _require_driver(host: Host) -> None:
    if host.stat(AMDGPU_DRIVER) is None:
        raise DriverUnavailable(
            f"amdgpu driver unavailable: {AMDGPU_DRIVER}/ does not exist",
            hint="load it with 'modprobe amdgpu', or install it",
        )


def _join(node: KfdNode, device: DrmDevice, places: Mapping[int, Place]) -> FoundGpu:
    address, parent = (device.pci_address, device) if device.pci_address else places[node.render_minor]
    key = (address.sort_key, node.render_minor)
    return FoundGpu(node=node, device=device, parent=parent, pci_address=address, sort_key=key)


def _read_pci_unique_id(host: Host, parent: DrmDevice | None) -> int:
    """Return the board's id (amdgpu_pm.c, hexadecimal); the file is absent or empty where there is none."""
    text = host.read_attribute(f"{parent.path}/unique_id") if parent else ""
    try:
        return int(text, 16)
    except ValueError:
        return 0


def _locate(gpu: FoundGpu, number: int, rank: int, total: int, pci_unique_id: int) -> GpuLocation:
    return GpuLocation(
        number=number,
        pci_address=gpu.pci_address,
        render_minor=gpu.node.render_minor,
        card_minor=gpu.device.card_minor,
        kfd_node=gpu.node.number,
        kfd_unique_id=gpu.node.read("unique_id"),
        pci_unique_id=pci_unique_id,
        partition_rank=rank,
        partition_total=total,
    )


def place_partitions(
    host: Host, nodes: Iterable[KfdNode], devices: Iterable[DrmDevice], *, is_whole: bool
) -> dict[int, Place]:
    """Return by render minor where partitions are, which are `nodes` of KFD's.

    `devices` are those of all nodes of KFD's; `is_whole` if these are all that there are.
    """
    slots = {node.render_minor: _slot(node) for node in nodes}
    by_slot = _by_slot(devices)
    # Nearly always the function is a GPU itself, and alone in its slot.
    if not is_whole or any(len(by_slot.get(slot, ())) != 1 for slot in slots.values()):
        by_slot = _by_slot(read_drm_devices(host))
    return {minor: _place(minor, slot, by_slot.get(slot, [])) for minor, slot in slots.items()}


def _place(render_minor: int, slot: tuple[int, int, int], functions: list[DrmDevice]) -> Place:
    before = [function for function in functions if (function.render_minor or 0) <= render_minor]
    parent = max(before or functions, key=lambda function: function.render_minor or 0, default=None)
    domain, bus, device = slot
    address = parent.pci_address if parent else None
    return address or PciAddress(domain=domain, bus=bus, device=device, function=0), parent


def _by_slot(devices: Iterable[DrmDevice]) -> dict[tuple[int, int, int], list[DrmDevice]]:
    by_slot: dict[tuple[int, int, int], list[DrmDevice]] = {}
    for device in devices:
        address = device.pci_address
        if address:
            by_slot.setdefault((address.domain, address.bus, address.device), []).append(device)
    return by_slot


def _slot(node: KfdNode) -> tuple[int, int, int]:
    """Return the domain, bus and device of a node."""
    # Kernels without "domain" have one domain. Bits 2:0 (once 31:28) are the partition, not the function.
    location = node.read("location_id")
    return node.read("domain"), location >> 8 & 0xFF, location >> 3 & 0x1F
