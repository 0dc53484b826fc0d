"""Decides which KFD nodes reach each other, how, and at what distance (drivers/gpu/drm/amd/amdkfd/kfd_crat.c)."""

from __future__ import annotations

from collections.abc import Sequence

from amdgpu_discovery.recording.kernel import HYPERTRANSPORT, PCIE, XGMI, XGMI_WEIGHT
from amdgpu_discovery.recording.profile import Profile
from amdgpu_discovery.value import Value
from amdgpu_simulator.hosts.placement import PlacedHost, PlacedNode

# Distances: between processors, over PCIe, inside a package, and from one package to another.
CPU_WEIGHT, PCIE_WEIGHT, PACKAGE_WEIGHT = 32, 20, 13
OTHER_PACKAGE_WEIGHT = 2 * PACKAGE_WEIGHT + XGMI_WEIGHT
PACKAGE_BANDWIDTH = (819200, 819200)
PCIE_SDMA_ENGINES = 3


class NodeLink(Value):
    """A path from one node to another; `sdma_engines` is a mask of the copy engines to use for it."""

    type: int
    node_from: int
    node_to: int
    weight: int
    bandwidth: tuple[int, int] = (0, 0)
    sdma_engines: int = 0
    flags: int = 0


class Links(Value):
    """The paths of one node: direct ones over a wire, and indirect ones through processors, which PCIe peers use."""

    direct: tuple[NodeLink, ...]
    indirect: tuple[NodeLink, ...]


def link_nodes(profile: Profile, placed: PlacedHost) -> list[Links]:
    """Return the links of every node, those of processors first."""
    cpus, nodes = placed.cpus, placed.nodes
    has_indirect = profile.driver is not None and profile.driver.peer_to_peer
    of_all = [*(_cpu_links(cpu, cpus, nodes) for cpu in cpus), *(_gpu_links(node, cpus, nodes) for node in nodes)]
    return [links if has_indirect else links.replace(indirect=()) for links in of_all]


def _near_cpu(node: PlacedNode, cpus: Sequence[int]) -> int:
    # The kernel takes the first one if the firmware does not name any.
    return cpus[node.gpu.numa_node] if 0 <= node.gpu.numa_node < len(cpus) else next(iter(cpus), 0)


def _cpu_links(number: int, cpus: Sequence[int], nodes: list[PlacedNode]) -> Links:
    others = [other for other in cpus if other != number]
    near = [node for node in nodes if _near_cpu(node, cpus) == number]
    far = [node for node in nodes if _near_cpu(node, cpus) != number and not node.gpu.model.cpu_by_xgmi]
    to_cpus = [NodeLink(type=HYPERTRANSPORT, node_from=number, node_to=other, weight=CPU_WEIGHT) for other in others]
    return Links(
        direct=(*to_cpus, *(_reverse(_to_cpu(node, number)) for node in near)),
        indirect=tuple(_reverse(_to_far_cpu(node, number)) for node in far),
    )


def _gpu_links(node: PlacedNode, cpus: Sequence[int], nodes: list[PlacedNode]) -> Links:
    near = _near_cpu(node, cpus)
    peers = [peer for peer in nodes if peer is not node and _in_one_hive(node, peer)]
    remotes = [peer for peer in nodes if peer is not node and not _in_one_hive(node, peer)]
    far_cpus = [] if node.gpu.model.cpu_by_xgmi else [cpu for cpu in cpus if cpu != near]
    to_far_cpus = [_to_far_cpu(node, cpu) for cpu in far_cpus]
    return Links(
        direct=(_to_cpu(node, near), *(_to_peer(node, peer) for peer in peers)),
        indirect=(*to_far_cpus, *(_to_remote(node, peer, cpus) for peer in remotes)),
    )


def _reverse(link: NodeLink) -> NodeLink:
    return link.replace(node_from=link.node_to, node_to=link.node_from, flags=3)


def _to_far_cpu(node: PlacedNode, cpu: int) -> NodeLink:
    return NodeLink(type=PCIE, node_from=node.number, node_to=cpu, weight=PCIE_WEIGHT + CPU_WEIGHT, flags=1)


def _in_one_hive(node: PlacedNode, peer: PlacedNode) -> bool:
    return node.gpu is peer.gpu or (node.gpu.hive_id == peer.gpu.hive_id and node.gpu.hive_id != 0)


def _to_cpu(node: PlacedNode, cpu: int) -> NodeLink:
    on_package = node.gpu.model.cpu_by_xgmi
    return NodeLink(
        type=XGMI if on_package else PCIE,
        node_from=node.number,
        node_to=cpu,
        weight=PACKAGE_WEIGHT if on_package else PCIE_WEIGHT,
        bandwidth=node.gpu.model.pcie_bandwidth,
        sdma_engines=PCIE_SDMA_ENGINES,
        flags=1,
    )


def _to_peer(node: PlacedNode, peer: PlacedNode) -> NodeLink:
    model = node.gpu.model
    is_partition = node.partition_total > 1
    if node.gpu is peer.gpu:
        weight, bandwidth = PACKAGE_WEIGHT, PACKAGE_BANDWIDTH
    elif is_partition or model.cpu_by_xgmi:
        weight, bandwidth = OTHER_PACKAGE_WEIGHT, (0, 0)
    else:
        weight, bandwidth = XGMI_WEIGHT, model.xgmi_bandwidth
    return NodeLink(
        type=XGMI,
        node_from=node.number,
        node_to=peer.number,
        weight=weight,
        bandwidth=bandwidth,
        sdma_engines=model.xgmi_sdma_engines,
        flags=1,
    )


def _to_remote(node: PlacedNode, peer: PlacedNode, cpus: Sequence[int]) -> NodeLink:
    crosses = _near_cpu(node, cpus) != _near_cpu(peer, cpus)
    weight = 2 * PCIE_WEIGHT + (CPU_WEIGHT if crosses else 0)
    # Only the way back from a later node to an earlier one repeats the engines of its wires.
    engines = PCIE_SDMA_ENGINES if peer.number < node.number else 0
    return NodeLink(type=PCIE, node_from=node.number, node_to=peer.number, weight=weight, sdma_engines=engines, flags=3)
