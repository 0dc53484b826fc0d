"""Which PCI function is a partition part of?

Apart from `numbering`, because most hosts have no partitions. sysfs has no link from a partition to its function. The
location's function bits hold the partition's number, so two virtual functions of one device look alike; a function's
own minor is handed out before those of its partitions.
"""

from __future__ import annotations

from amdgpu_discovery.location import PciAddress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from amdgpu_discovery.drm import DrmDevice
    from amdgpu_discovery.host import Host
    from amdgpu_discovery.kfd_topology import KfdNode

    # A function's address, and its device where it has minors of its own.
    Place = tuple[PciAddress, DrmDevice | None]


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
        from amdgpu_discovery.drm_class import read_drm_devices

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
