"""Builds the KFD topology in sysfs, with the properties that KFD prints for each node.

Source: drivers/gpu/drm/amd/amdkfd/kfd_topology.c, node_show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from amdgpu_discovery.recording.kernel import ALL_NODES, GPU_NODES, LAST, NEWER_NODES, OPTIONAL_PROPERTIES
from amdgpu_discovery.recording.profile import CpuNode, Driver, Profile
from amdgpu_simulator.hosts.links import Links, NodeLink
from amdgpu_simulator.hosts.placement import PlacedHost, PlacedNode, read_address
from amdgpu_simulator.hosts.tree import Tree

KFD = "/sys/devices/virtual/kfd/kfd"
NODES = f"{KFD}/topology/nodes"
# On heap 0; each node sets its own size.
SYSTEM_MEMORY = {"heap_type": 0, "size_in_bytes": 0, "flags": 0, "width": 64, "mem_clk_max": 3200}
PAGE = 4096
# KFD's number for the first vector unit of the first GPU.
FIRST_SIMD_ID = 0x80001000


def add_kfd(tree: Tree, profile: Profile, driver: Driver, placed: PlacedHost, links: Sequence[Links]) -> None:
    """Add KFD's device and its nodes, which count `links` but do not list them; see `add_links`."""
    _add_device(tree, profile, driver)
    generation = driver.generation_id if driver.generation_id is not None else len(links)
    tree.add_attributes(f"{KFD}/topology", {"generation_id": generation})
    system = {"platform_oem": 0, "platform_id": 0, "platform_rev": 0}
    tree.add_file(f"{KFD}/topology/system_properties", _lines(system, driver))
    tree.add_directory(NODES)
    first_core = 0
    of_nodes = iter(links)
    for cpu, number in zip(profile.cpus, placed.cpus, strict=True):
        base = first_core if cpu.core_id_base is None else cpu.core_id_base
        memory = {**SYSTEM_MEMORY, "size_in_bytes": cpu.memory_bytes}
        _add_node(tree, driver, number, cpu_properties(cpu, base, next(of_nodes)), memory)
        tree.add_attributes(f"{NODES}/{number}", {"gpu_id": 0, "name": ""})
        first_core += cpu.cores
    for position, node in enumerate(placed.nodes):
        properties = gpu_properties(node, next(of_nodes), position)
        _add_node(tree, driver, node.number, properties, _video_memory(node))
        tree.add_attributes(f"{NODES}/{node.number}", {"gpu_id": node.gpu_id, "name": node.gpu.model.kfd_name})


def add_links(tree: Tree, driver: Driver, links: Sequence[Links]) -> None:
    """Add the links of every node."""
    for of_node in links:
        for link_type, paths in (("io_links", of_node.direct), ("p2p_links", of_node.indirect)):
            for position, link in enumerate(paths):
                path = f"{NODES}/{link.node_from}/{link_type}/{position}/properties"
                tree.add_file(path, _lines(_link_properties(link), driver))


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
    # Caches are counted too, but never listed: many hosts have thousands, and no program needs them.
    for name in ("caches", "io_links", "p2p_links"):
        tree.add_directory(f"{path}/{name}")


def _video_memory(node: PlacedNode) -> dict[str, int] | None:
    model = node.gpu.model
    size = _memory_size(node)
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


def _lines(properties: Mapping[str, int], driver: Driver) -> bytes:
    lines = (f"{key} {value}\n" for key, value in properties.items() if key not in driver.absent_properties)
    return "".join(lines).encode()


def cpu_properties(cpu: CpuNode, core_id_base: int, links: Links) -> dict[str, int]:
    """Return the properties of a CPU node."""
    known = {
        "cpu_cores_count": cpu.cores,
        "mem_banks_count": 1,
        "io_links_count": len(links.direct),
        "p2p_links_count": len(links.indirect),
        "cpu_core_id_base": core_id_base,
        "hive_id": cpu.hive_id,
        "max_engine_clk_ccompute": cpu.clock,
    }
    return {key: known.get(key, 0) for key in (*ALL_NODES, *LAST)}


def gpu_properties(node: PlacedNode, links: Links, position: int) -> dict[str, int]:
    """Return the properties of a GPU or partition; `position` is its place among those of the host."""
    known = {**node.gpu.model.properties, **_shape(node), **_identity(node)}
    known["io_links_count"] = len(links.direct)
    known["p2p_links_count"] = len(links.indirect)
    units = known["array_count"] * known.get("cu_per_simd_array", 0)
    known["simd_id_base"] = FIRST_SIMD_ID + position * units
    keys = dict.fromkeys((*ALL_NODES, *NEWER_NODES, *GPU_NODES, *known, *LAST))
    return {key: known.get(key, 0) for key in keys if key in known or key not in OPTIONAL_PROPERTIES}


def _shape(node: PlacedNode) -> dict[str, int]:
    model = node.gpu.model
    xcc_count = max(1, model.xcc_count // node.partition_total)
    return {
        "simd_count": model.simd_per_xcc * xcc_count,
        "array_count": model.arrays_per_xcc * xcc_count,
        "num_xcc": xcc_count,
        "mem_banks_count": 1,
        "caches_count": model.properties.get("caches_count", 0) * xcc_count,
        "gfx_target_version": model.gfx_target_version,
        "vendor_id": model.vendor_id,
        "device_id": model.device_id,
    }


def _identity(node: PlacedNode) -> dict[str, int]:
    gpu = node.gpu
    unique_ids = gpu.kfd_unique_ids or (gpu.pci_unique_id or 0,)
    address = read_address(gpu.pci_address)
    location = address.bus << 8 | address.device << 3 | address.function
    return {
        # If there are several partitions, the function's bits hold the partition as well.
        "location_id": location | (node.partition if node.partition_total > 1 else 0),
        "domain": address.domain,
        "drm_render_minor": node.render,
        "hive_id": gpu.hive_id,
        "unique_id": unique_ids[min(node.partition, len(unique_ids) - 1)],
    }
