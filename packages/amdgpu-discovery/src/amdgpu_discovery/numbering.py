"""Gives every GPU and partition of a host its number.

A GPU is a KFD node that has a DRM render node. KFD knows what computes, and DRM knows where it is.
docs/explanation/numbering.md explains the order.

sysfs has no link from a partition to its PCI function. The function bits of a location hold the partition's number, so
two virtual functions of one device look alike. A function gets its own minor before those of its partitions.
"""

from __future__ import annotations

from amdgpu_discovery.driver.drm import (
    AMDGPU_DRIVER,
    FoundGpu,
    find_drm_devices,
    find_unlinked_devices,
    read_drm_devices,
)
from amdgpu_discovery.driver.kfd_topology import read_topology
from amdgpu_discovery.errors import DriverUnavailable, GpusHidden
from amdgpu_discovery.gpu import GpuLocation, PciAddress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Protocol

    from amdgpu_discovery.driver.drm import DrmDevice
    from amdgpu_discovery.driver.hidden_gpus import Position
    from amdgpu_discovery.driver.kfd_topology import KfdNode, Topology
    from amdgpu_discovery.host import Host

    # A function's address, and its device if it has minors of its own.
    Parent = tuple[PciAddress, DrmDevice | None]

    class Numbered(Protocol):
        """What a location and a state of a GPU have."""

        @property
        def number(self) -> int:
            """Its number."""

        @property
        def host_total(self) -> int:
            """How many GPUs the host has."""


# 0x and 64 bits.
LONGEST_HEXADECIMAL = 18


def locate_gpus(host: Host, *, board_ids: bool = True) -> list[GpuLocation]:
    """Return every GPU and partition that this process may use, with only what is needed to choose among them.

    They are in the order of their numbers, which are the host's: those of hidden GPUs are missing. Without `board_ids`
    no `pci_unique_id` is read and all are 0, for callers that choose by number alone. Returns [] if the driver is
    loaded and has no GPU. Raises DriverUnavailable if it is not loaded, and GpusHidden if this process may use none.
    """
    found, topology = join_gpus(host)
    return number_gpus(host, found, topology.hidden, board_ids=board_ids)


def require_all_gpus(gpus: Sequence[GpuLocation]) -> None:
    """Raise GpusHidden unless `gpus` are all that the host has."""
    hidden = len(hidden_numbers(gpus))
    if hidden:
        raise GpusHidden(hidden, hidden + len(gpus))


def hidden_numbers(gpus: Sequence[Numbered]) -> list[int]:
    """Return the numbers of the host's GPUs that are missing in `gpus`, which are all that this process may use."""
    usable = {gpu.number for gpu in gpus}
    return [number for number in range(gpus[0].host_total if gpus else 0) if number not in usable]


def join_gpus(host: Host) -> tuple[list[FoundGpu], Topology]:
    """Return the GPUs and partitions that this process may use, in the order of their numbers, and KFD's topology.

    Raises the errors of `locate_gpus`.
    """
    topology = read_topology(host)
    if not topology.gpu_nodes:
        _require_driver(host)
    node_by_minor = {node.render_minor: node for node in topology.gpu_nodes}
    devices = _find_devices(host, node_by_minor)
    partitions = [node_by_minor[device.render_minor or 0] for device in devices if not device.pci_address]
    parents: Mapping[int, Parent] = {}
    if partitions:
        parents = find_partition_parents(host, partitions, devices, is_whole=topology.is_whole)
    found = _join(node_by_minor, devices, parents)
    if topology.hidden and not found:
        raise GpusHidden(topology.hidden, topology.hidden)
    return sorted(found, key=lambda gpu: gpu.sort_key), topology


def number_gpus(host: Host, found: Sequence[FoundGpu], hidden: int, *, board_ids: bool = True) -> list[GpuLocation]:
    """Return the GPUs that `join_gpus` found, with their numbers."""
    groups: dict[tuple[int, ...], list[FoundGpu]] = {}
    for gpu in found:
        groups.setdefault(gpu.sort_key[0], []).append(gpu)
    # Siblings are adjacent, and dictionaries keep their order.
    if hidden:
        from amdgpu_discovery.driver.hidden_gpus import count_around_hidden

        positions = count_around_hidden(host, list(groups.values()), hidden)
    else:
        positions = _count(groups.values())
    boards = [group[0].parent for group in groups.values()]
    ids = dict(zip(groups, _read_pci_unique_ids(host, boards) if board_ids else [0] * len(boards), strict=True))
    return _locate(found, positions, [ids[gpu.sort_key[0]] for gpu in found], host_total=len(found) + hidden)


def _find_devices(host: Host, node_by_minor: Mapping[int, KfdNode]) -> list[DrmDevice]:
    devices = find_drm_devices(host, node_by_minor)
    if len(devices) == len(node_by_minor):
        return devices
    # A node may outlive its render node: KFD removes it only when the last open file is closed.
    unlinked = set(node_by_minor) - {device.render_minor for device in devices}
    return devices + find_unlinked_devices(host, unlinked)


def _count(groups: Iterable[list[FoundGpu]]) -> list[Position]:
    positions: list[Position] = []
    for group in groups:
        positions += [(len(positions) + rank, rank, len(group)) for rank in range(len(group))]
    return positions


def _require_driver(host: Host) -> None:
    if host.stat(AMDGPU_DRIVER) is None:
        raise DriverUnavailable(
            f"amdgpu driver unavailable: {AMDGPU_DRIVER}/ does not exist",
            hint="load it with 'sudo modprobe amdgpu', or install it",
        )


def _join(
    node_by_minor: Mapping[int, KfdNode], devices: Sequence[DrmDevice], parents: Mapping[int, Parent]
) -> list[FoundGpu]:
    nodes = [node_by_minor[device.render_minor or 0] for device in devices]
    functions = [
        (device.pci_address, device) if device.pci_address else parents[node.render_minor]
        for node, device in zip(nodes, devices, strict=True)
    ]
    keys = [address.sort_key for address, _ in functions]
    return [
        FoundGpu(node=node, device=device, parent=parent, pci_address=address, sort_key=(key, node.render_minor))
        for node, device, (address, parent), key in zip(nodes, devices, functions, keys, strict=True)
    ]


def _read_pci_unique_ids(host: Host, boards: Sequence[DrmDevice | None]) -> list[int]:
    """Return the boards' ids (amdgpu_pm.c, hexadecimal); the file is missing or empty if there is none."""
    texts = iter(host.read_attributes([f"{board.path}/unique_id" for board in boards if board]))
    return [parse_hexadecimal(next(texts)) if board else 0 for board in boards]


def parse_hexadecimal(text: str) -> int:
    """Return a number of at most 64 bits that sysfs prints in hexadecimal; 0 for any other text."""
    try:
        return int(text, 16) if len(text) <= LONGEST_HEXADECIMAL else 0
    except ValueError:
        return 0


def _locate(
    found: Sequence[FoundGpu], positions: Sequence[Position], pci_unique_ids: Sequence[int], *, host_total: int
) -> list[GpuLocation]:
    kfd_unique_ids = [gpu.node.read("unique_id") for gpu in found]
    return [
        GpuLocation(
            number=number,
            pci_address=gpu.pci_address,
            render_minor=gpu.node.render_minor,
            card_minor=gpu.device.card_minor,
            kfd_node=gpu.node.number,
            kfd_unique_id=kfd_unique_id,
            pci_unique_id=pci_unique_id,
            partition_rank=rank,
            partition_total=total,
            host_total=host_total,
        )
        for gpu, (number, rank, total), kfd_unique_id, pci_unique_id in zip(
            found, positions, kfd_unique_ids, pci_unique_ids, strict=True
        )
    ]


def find_partition_parents(
    host: Host, nodes: Iterable[KfdNode], devices: Iterable[DrmDevice], *, is_whole: bool
) -> dict[int, Parent]:
    """Return the parents of partitions by render minor; `nodes` are the partitions in KFD.

    `devices` are those of all KFD nodes; `is_whole` if KFD hides no other.
    """
    slots = {node.render_minor: node.slot for node in nodes}
    by_slot = _by_slot(devices)
    # The function is nearly always a GPU itself, and the only one in its slot.
    if not is_whole or any(len(by_slot.get(slot, ())) != 1 for slot in slots.values()):
        by_slot = _by_slot(read_drm_devices(host))
    return {minor: _find_parent(minor, slot, by_slot.get(slot, [])) for minor, slot in slots.items()}


def _find_parent(render_minor: int, slot: tuple[int, int, int], functions: list[DrmDevice]) -> Parent:
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
