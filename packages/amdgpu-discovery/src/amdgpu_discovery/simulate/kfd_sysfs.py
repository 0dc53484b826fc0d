"""Describe the KFD topology as sysfs does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from amdgpu_discovery.simulate.links import Links, NodeLink
from amdgpu_discovery.simulate.node_properties import cpu_properties, gpu_properties
from amdgpu_discovery.simulate.placement import PlacedNode, number_nodes
from amdgpu_discovery.simulate.profile import CpuNode, Driver, Profile
from amdgpu_discovery.simulate.tree import Tree

KFD = "/sys/devices/virtual/kfd/kfd"
NODES = f"{KFD}/topology/nodes"
SYSTEM_HEAP = 0
PAGE = 4096


def add_kfd(tree: Tree, profile: Profile, driver: Driver, nodes: Sequence[PlacedNode], links: Sequence[Links]) -> None:
    """Add KFD's device and its nodes, which count `links` but do not list them; see `add_links`."""
    _add_device(tree, profile, driver)
    generation = driver.generation_id if driver.generation_id is not None else len(profile.cpus) + len(nodes)
    tree.add_attributes(f"{KFD}/topology", {"generation_id": generation})
    system = {"platform_oem": 0, "platform_id": 0, "platform_rev": 0}
    tree.add_file(f"{KFD}/topology/system_properties", _lines(system, driver))
    tree.add_directory(NODES)
    first_core = 0
    numbers = number_nodes(profile, len(nodes))
    for position, cpu in enumerate(profile.cpus):
        number = numbers[position]
        base = first_core if cpu.core_id_base is None else cpu.core_id_base
        _add_node(tree, driver, number, cpu_properties(cpu, base, links[position]), _system_memory(cpu))
        tree.add_attributes(f"{NODES}/{number}", {"gpu_id": 0, "name": ""})
        first_core += cpu.cores
    for position, node in enumerate(nodes):
        number = numbers[node.number]
        properties = gpu_properties(node, links[node.number], position)
        _add_node(tree, driver, number, properties, _video_memory(node))
        tree.add_attributes(f"{NODES}/{number}", {"gpu_id": node.gpu_id, "name": node.gpu.model.kfd_name})


def add_links(tree: Tree, profile: Profile, driver: Driver, links: Sequence[Links]) -> None:
    """Add the links of every node; `links` are those of processors, then those of GPUs."""
    numbers = number_nodes(profile, len(links) - len(profile.cpus))
    for number, of_node in zip(numbers, links, strict=True):
        for link_type, paths in (("io_links", of_node.direct), ("p2p_links", of_node.indirect)):
            for position, link in enumerate(paths):
                path = f"{NODES}/{number}/{link_type}/{position}/properties"
                tree.add_file(path, _lines(_link_properties(link, numbers), driver))


def _add_device(tree: Tree, profile: Profile, driver: Driver) -> None:
    number = f"{driver.kfd_major}:0"
    tree.add_attributes(KFD, {"dev": number, "uevent": f"MAJOR={driver.kfd_major}\nMINOR=0\nDEVNAME=kfd"})
    tree.add_link(f"{KFD}/subsystem", "/sys/class/kfd")
    tree.add_link("/sys/class/kfd/kfd", KFD)
    tree.add_link(f"/sys/dev/char/{number}", KFD)
    tree.add_file("/dev/kfd", mode=profile.access.render_mode, group=profile.access.render_group)


def _add_node(
    tree: Tree, driver: Driver, number: int, properties: Mapping[str, int], memory: Mapping[str, int] | None
) -> None:
    path = f"{NODES}/{number}"
    tree.add_file(f"{path}/properties", _lines(properties, driver))
    if memory:
        tree.add_file(f"{path}/mem_banks/0/properties", _lines(memory, driver))
    # Caches are counted too, but never listed: on many hosts they are thousands, and no program needs them.
    for name in ("caches", "io_links", "p2p_links"):
        tree.add_directory(f"{path}/{name}")


def _system_memory(cpu: CpuNode) -> dict[str, int]:
    return {"heap_type": SYSTEM_HEAP, "size_in_bytes": cpu.memory_bytes, "flags": 0, "width": 64, "mem_clk_max": 3200}


def _video_memory(node: PlacedNode) -> dict[str, int] | None:
    model, size = node.gpu.model, _memory_size(node)
    if size is None:
        return None
    return {
        "heap_type": model.heap_type,
        "size_in_bytes": size,
        "flags": 0,
        "width": model.memory_width,
        "mem_clk_max": model.memory_clock,
    }


def _memory_size(node: PlacedNode) -> int | None:
    sizes = node.gpu.partition_bytes
    if node.partition < len(sizes):
        return sizes[node.partition]
    total = node.gpu.model.kfd_bytes or node.gpu.model.vram_bytes
    return None if total is None else total // node.partition_total // PAGE * PAGE


def _link_properties(link: NodeLink, numbers: Sequence[int]) -> dict[str, int]:
    return {
        "type": link.type,
        "version_major": 0,
        "version_minor": 0,
        "node_from": numbers[link.node_from],
        "node_to": numbers[link.node_to],
        "weight": link.weight,
        "min_latency": 0,
        "max_latency": 0,
        "min_bandwidth": link.bandwidth[0],
        "max_bandwidth": link.bandwidth[1],
        "recommended_transfer_size": 0,
        "recommended_sdma_engine_id_mask": link.sdma_engines,
        "flags": link.flags,
    }


def _lines(properties: Mapping[str, int], driver: Driver) -> bytes:
    told = (f"{key} {value}\n" for key, value in properties.items() if key not in driver.absent_properties)
    return "".join(told).encode()
