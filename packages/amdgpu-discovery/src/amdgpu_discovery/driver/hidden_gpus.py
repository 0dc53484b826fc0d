"""Finds the numbers that belong to GPUs hidden by the device cgroup of this process.

KFD lists the directories of their nodes, but not their content (kfd_priv.h, kfd_devcgroup_check_permission). All
processes can read the driver's PCI functions, their compute modes and the directories of DRM. As many nodes as KFD
hides must be among them. This is not in `numbering`, because most processes may use every GPU.
"""

from __future__ import annotations

from amdgpu_discovery.driver.compute_modes import read_partition_total
from amdgpu_discovery.driver.drm import (
    AMDGPU_PCI_DEVICES,
    FoundGpu,
    amdgpu_pci_addresses,
    find_owners,
    read_drm_devices,
)
from amdgpu_discovery.errors import ToolkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from amdgpu_discovery.gpu import PciAddress
    from amdgpu_discovery.host import Host

    # A GPU's number, its rank among the partitions of its parent, and the number of these partitions.
    Position = tuple[int, int, int]


class NumbersUnknown(ToolkitError):
    """So many GPUs are hidden that the others cannot be numbered."""

    def __init__(self, hidden: int, candidates: int) -> None:
        are, they = ("is", "it") if hidden == 1 else ("are", "they")
        super().__init__(
            f"GPUs cannot be numbered: {hidden} of them {are} hidden from this process by its device cgroup, and the"
            f" amdgpu driver has {candidates} devices to which {they} may belong",
            hint="run it where all GPUs may be opened",
        )


def count_around_hidden(host: Host, groups: Sequence[list[FoundGpu]], hidden: int) -> list[Position]:
    """Return the positions of GPUs among all of the host. `groups` are those of one PCI function each, in order.

    Raises NumbersUnknown if it matters which of the driver's devices the `hidden` nodes belong to, and that is unknown.
    """
    minors = _render_minors_by_function(host, [gpu for group in groups for gpu in group])
    shown = {group[0].pci_address: len(group) for group in groups}
    others = _count_hidden(host, shown, minors)
    # If KFD shows a partition of a function, it hides the others. KFD may not know other functions at all.
    siblings = {address: others.pop(address, 0) for address in shown}
    elsewhere, candidates = hidden - sum(siblings.values()), sum(others.values())
    positions: list[Position] = []
    counted = 0
    for group in groups:
        address = group[0].pci_address
        before = sum(count for other, count in others.items() if other.sort_key < address.sort_key)
        fewest, most = max(0, elsewhere - (candidates - before)), min(elsewhere, before)
        if fewest != most:
            raise NumbersUnknown(elsewhere, candidates)
        total = len(group) + siblings[address]
        ranks = range(total) if len(group) == total else _ranks(group, minors[address][:total])
        positions += [(counted + fewest + rank, rank, total) for rank in ranks]
        counted += total
    return positions


def find_hidden_functions(host: Host, found: Sequence[FoundGpu]) -> set[PciAddress]:
    """Return the PCI functions of the driver that are, or may be, hidden GPUs."""
    shown: dict[PciAddress, int] = {}
    for gpu in found:
        shown[gpu.pci_address] = shown.get(gpu.pci_address, 0) + 1
    counts = _count_hidden(host, shown, _render_minors_by_function(host, found))
    return {address for address, count in counts.items() if count}


def _count_hidden(
    host: Host, shown: Mapping[PciAddress, int], minors: Mapping[PciAddress, list[int]]
) -> dict[PciAddress, int]:
    """Return how many nodes of each PCI function of the driver KFD may hide."""
    hidden = {}
    for address, of_function in minors.items():
        total = read_partition_total(host, f"{AMDGPU_PCI_DEVICES}/{address}")
        # KFD adds no node for a partition without a render node.
        most = len(of_function) if total is None else min(total, len(of_function))
        hidden[address] = max(0, most - shown.get(address, 0))
    return hidden


def _render_minors_by_function(host: Host, found: Sequence[FoundGpu]) -> dict[PciAddress, list[int]]:
    """Return the render minors of each PCI function of the driver, including those of its partitions, in order."""
    devices = read_drm_devices(host)
    owners = find_owners(host, devices, found)
    minors: dict[PciAddress, list[int]] = {address: [] for address in amdgpu_pci_addresses(host)}
    for device in devices:
        owner = owners.get(device.path)
        if owner in minors and device.render_minor is not None:
            minors[owner].append(device.render_minor)
    return {address: sorted(of_function) for address, of_function in minors.items()}


def _ranks(group: Sequence[FoundGpu], minors: Sequence[int]) -> list[int]:
    """Return the ranks of a function's partitions that are not hidden; `minors` are the render minors in use."""
    unexpected = [gpu for gpu in group if gpu.node.render_minor not in minors]
    if unexpected:
        raise NumbersUnknown(len(minors) - len(group), len(minors))
    return [minors.index(gpu.node.render_minor) for gpu in group]
