"""Record what a GPU has in common with others of its product."""

from __future__ import annotations

from amdgpu_discovery.compute_modes import MODES_BY_XCC_COUNT
from amdgpu_discovery.simulate.links import XGMI, XGMI_WEIGHT
from amdgpu_discovery.simulate.node_properties import DERIVED_PROPERTIES, OPTIONAL_PROPERTIES
from amdgpu_discovery.simulate.profile import GpuModel
from amdgpu_discovery.simulate.sysfs_numbers import read_number, read_numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from amdgpu_discovery.host import Host
    from amdgpu_discovery.kfd_topology import KfdNode

# Of the PCI function; none of them tells one board from another of its model.
ATTRIBUTES = (
    *("board_info", "mem_info_gtt_total", "mem_info_vis_vram_total", "mem_info_vram_vendor", "product_name"),
    "vbios_version",
)
XCC_COUNT_BY_COMPUTE_MODES = {modes: count for count, modes in MODES_BY_XCC_COUNT.items()}
# drivers/gpu/drm/amd/amdgpu/amdgpu_xcp.c: one beside each function for each partition it could have but the first.
XCP_DEVICES = 7


def record_model(host: Host, path: str, nodes: list[KfdNode]) -> GpuModel:
    """Return the model of the GPU at a path of sysfs with these KFD nodes."""
    attributes = {name: host.read_attribute(f"{path}/{name}") for name in ATTRIBUTES}
    device_id = _read_id(host, path, "device")
    return GpuModel(
        product=attributes["product_name"] or f"{device_id:04x}",
        vendor_id=_read_id(host, path, "vendor"),
        device_id=device_id,
        subsystem_vendor=_read_id(host, path, "subsystem_vendor"),
        subsystem_device=_read_id(host, path, "subsystem_device"),
        revision=_read_id(host, path, "revision"),
        pci_class=_read_id(host, path, "class"),
        vram_bytes=read_number(host, f"{path}/mem_info_vram_total"),
        attributes={name: text for name, text in attributes.items() if text},
        **_record_node(host, path, nodes),
    )


def _read_id(host: Host, path: str, name: str) -> int:
    return read_number(host, f"{path}/{name}", base=16) or 0


def _record_node(host: Host, path: str, nodes: list[KfdNode]) -> dict[str, Any]:
    if not nodes:
        return {"gfx_target_version": 0, "simd_per_xcc": 0, "arrays_per_xcc": 0}
    node = nodes[0]
    properties = read_numbers(host, f"{node.path}/properties")
    xcc_count = properties.get("num_xcc") or 1
    modes = host.read_attribute(f"{path}/available_compute_partition")
    memory = read_numbers(host, f"{node.path}/mem_banks/0/properties")
    return {
        "gfx_target_version": properties.get("gfx_target_version", 0),
        "kfd_name": host.read_attribute(f"{node.path}/name"),
        "simd_per_xcc": properties.get("simd_count", 0) // xcc_count,
        "arrays_per_xcc": properties.get("array_count", 0) // xcc_count,
        "xcc_count": XCC_COUNT_BY_COMPUTE_MODES.get(modes, xcc_count * len(nodes)),
        "xcp_devices": XCP_DEVICES if modes else 0,
        "heap_type": memory.get("heap_type", 1),
        "memory_width": memory.get("width", 0),
        "memory_clock": memory.get("mem_clk_max", 0),
        "properties": _record_properties(properties, xcc_count),
        **_record_links(host, node),
    }


def _record_properties(properties: dict[str, int], xcc_count: int) -> dict[str, int]:
    """Return the properties that nothing else in a profile implies."""
    kept = {key: number for key, number in properties.items() if key not in DERIVED_PROPERTIES}
    kept["caches_count"] = properties.get("caches_count", 0) // xcc_count
    return {key: number for key, number in kept.items() if number or key in OPTIONAL_PROPERTIES}


def _record_links(host: Host, node: KfdNode) -> dict[str, Any]:
    """Return how this GPU reaches its processor and its peers, as far as its own links say."""
    directory = f"{node.path}/io_links"
    read = [read_numbers(host, f"{directory}/{name}/properties") for name in host.names(directory)]
    # A link to a GPU outside this process's device cgroup is refused.
    links = [link for link in read if "node_to" in link]
    if not links:
        return {}
    # Processors have the lowest numbers, and a GPU has a link of its own to only one of them.
    to_cpu, *to_peers = sorted(links, key=lambda link: link["node_to"])
    xgmi = [link for link in to_peers if link["type"] == XGMI]
    hops = [link for link in xgmi if link["weight"] == XGMI_WEIGHT]
    return {
        "cpu_by_xgmi": to_cpu["type"] == XGMI,
        "pcie_bandwidth": _bandwidth(to_cpu),
        "xgmi_bandwidth": _bandwidth(hops[0]) if hops else (0, 0),
        "xgmi_sdma_engines": xgmi[0].get("recommended_sdma_engine_id_mask", 0) if xgmi else 0,
    }


def _bandwidth(link: dict[str, int]) -> tuple[int, int]:
    return (link["min_bandwidth"], link["max_bandwidth"])
