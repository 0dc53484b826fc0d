"""Describe the KFD topology as sysfs does."""

from __future__ import annotations

from amdgpu_discovery.simulate.links import link_nodes
from amdgpu_discovery.simulate.node_properties import cpu_properties, gpu_properties

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from amdgpu_discovery.simulate.links import Links, NodeLink
    from amdgpu_discovery.simulate.placement import HostPlace, NodePlace
    from amdgpu_discovery.simulate.profile import CpuNode, Driver, Profile
    from amdgpu_discovery.simulate.tree import Tree

KFD = "/sys/devices/virtual/kfd/kfd"
NODES = f"{KFD}/topology/nodes"
SYSTEM_HEAP = 0
PAGE = 4096


def add_kfd(tree: Tree, profile: Profile, place: HostPlace) -> None:
    """Add the KFD device, its topology and /dev/kfd, if the driver is loaded."""
    driver = profile.driver
    if driver is None or driver.kfd_major is None:
        return
    _add_device(tree, profile, driver)
    nodes = place.nodes
    generation = driver.generation_id if driver.generation_id is not None else len(profile.cpus) + len(nodes)
    system = _lines({"platform_oem": 0, "platform_id": 0, "platform_rev": 0})
    tree.add_file(f"{KFD}/topology/system_properties", system)
    tree.add_attributes(f"{KFD}/topology", {"generation_id": generation})
    tree.add_directory(NODES)
    links = link_nodes(profile, nodes)
    for number, cpu in enumerate(profile.cpus):
        _add_cpu(tree, profile, number, cpu, links[number])
    for node in nodes:
        _add_gpu(tree, driver, node, links[node.number], nodes[0].number)


def _add_device(tree: Tree, profile: Profile, driver: Driver) -> None:
    tree.add_attributes(KFD, {"dev": f"{driver.kfd_major}:0"})
    tree.add_attributes(KFD, {"uevent": f"MAJOR={driver.kfd_major}\nMINOR=0\nDEVNAME=kfd"})
    tree.add_link(f"{KFD}/subsystem", "/sys/class/kfd")
    tree.add_link("/sys/class/kfd/kfd", KFD)
    tree.add_link(f"/sys/dev/char/{driver.kfd_major}:0", KFD)
    tree.add_file("/dev/kfd", mode=profile.access.render_mode, group=profile.access.render_group)


def _add_cpu(tree: Tree, profile: Profile, number: int, cpu: CpuNode, links: Links) -> None:
    driver = profile.driver
    earlier = sum(other.cores for other in profile.cpus[:number])
    base = earlier if cpu.core_id_base is None else cpu.core_id_base
    absent = driver.absent_properties if driver else ()
    tree.add_attributes(f"{NODES}/{number}", {"gpu_id": 0, "name": ""})
    tree.add_file(f"{NODES}/{number}/properties", _lines(cpu_properties(cpu, base, links), absent))
    bank = {"heap_type": SYSTEM_HEAP, "size_in_bytes": cpu.memory_bytes, "flags": 0, "width": 64, "mem_clk_max": 3200}
    tree.add_file(f"{NODES}/{number}/mem_banks/0/properties", _lines(bank))
    _add_links(tree, number, links, absent)


def _add_gpu(tree: Tree, driver: Driver, node: NodePlace, links: Links, first: int) -> None:
    absent = driver.absent_properties
    path = f"{NODES}/{node.number}"
    tree.add_attributes(path, {"gpu_id": node.gpu_id, "name": node.gpu.kind.kfd_name})
    tree.add_file(f"{path}/properties", _lines(gpu_properties(node, links, node.number - first), absent))
    tree.add_file(f"{path}/mem_banks/0/properties", _lines(_memory_bank(node)))
    _add_links(tree, node.number, links, absent)


def _memory_bank(node: NodePlace) -> dict[str, int]:
    kind = node.gpu.kind
    return {
        "heap_type": kind.heap_type,
        "size_in_bytes": _memory_size(node),
        "flags": 0,
        "width": kind.memory_width,
        "mem_clk_max": kind.memory_clock,
    }


def _memory_size(node: NodePlace) -> int:
    sizes = node.gpu.partition_bytes
    if node.partition < len(sizes):
        return sizes[node.partition]
    total = node.gpu.kind.kfd_bytes or node.gpu.kind.vram_bytes
    return total // node.partition_total // PAGE * PAGE


def _add_links(tree: Tree, number: int, links: Links, absent: tuple[str, ...]) -> None:
    for kind, paths in (("io_links", links.direct), ("p2p_links", links.indirect)):
        tree.add_directory(f"{NODES}/{number}/{kind}")
        for position, link in enumerate(paths):
            tree.add_file(f"{NODES}/{number}/{kind}/{position}/properties", _lines(_link_properties(link), absent))
    # Counted in the properties, but not listed: thousands of files that neither we nor ROCm's discovery read.
    tree.add_directory(f"{NODES}/{number}/caches")


def _link_properties(link: NodeLink) -> dict[str, int]:
    return {
        "type": link.type,
        "version_major": 0,
        "version_minor": 0,
        "node_from": link.node_from,
        "node_to": link.node_to,
        "weight": link.weight,
        "min_latency": 0,
        "max_latency": 0,
        "min_bandwidth": link.bandwidth[0],
        "max_bandwidth": link.bandwidth[1],
        "recommended_transfer_size": 0,
        "recommended_sdma_engine_id_mask": link.sdma_engines,
        "flags": link.flags,
    }


def _lines(properties: Mapping[str, int], absent: tuple[str, ...] = ()) -> bytes:
    return "".join(f"{key} {value}\n" for key, value in properties.items() if key not in absent).encode()
