"""Work out what KFD prints about a node (drivers/gpu/drm/amd/amdkfd/kfd_topology.c, node_show)."""

from __future__ import annotations

from amdgpu_discovery.simulate.links import Links
from amdgpu_discovery.simulate.placement import PlacedNode, read_address
from amdgpu_discovery.simulate.profile import CpuNode

# In the order of the kernel; a driver prints those it knows.
ALL_NODES = (
    *("cpu_cores_count", "simd_count", "mem_banks_count", "caches_count", "io_links_count", "p2p_links_count"),
    *("cpu_core_id_base", "simd_id_base", "max_waves_per_simd", "lds_size_in_kb", "gds_size_in_kb", "num_gws"),
    *("wave_front_size", "array_count", "simd_arrays_per_engine", "cu_per_simd_array", "simd_per_cu"),
    *("max_slots_scratch_cu", "gfx_target_version", "vendor_id", "device_id", "location_id", "domain"),
    *("drm_render_minor", "hive_id", "num_sdma_engines", "num_sdma_xgmi_engines", "num_sdma_queues_per_engine"),
    "num_cp_queues",
)
NEWER_NODES = ("cwsr_size", "ctl_stack_size")
GPU_NODES = (
    *("max_engine_clk_fcompute", "local_mem_size", "fw_version", "capability", "capability2", "debug_prop"),
    *("sdma_fw_version", "unique_id", "num_xcc"),
)
LAST = ("max_engine_clk_ccompute",)
# Only some kernels have these, so a GPU has them only where its model names them.
OPTIONAL_PROPERTIES = (*NEWER_NODES, "capability2")
USUAL_GPU_PROPERTIES = tuple(key for key in (*ALL_NODES, *GPU_NODES, *LAST) if key not in OPTIONAL_PROPERTIES)
# What follows from the rest of a profile; GpuModel.properties has everything else.
DERIVED_PROPERTIES = frozenset(
    (
        *("simd_count", "mem_banks_count", "io_links_count", "p2p_links_count"),
        *("simd_id_base", "array_count", "gfx_target_version", "vendor_id", "device_id"),
        *("location_id", "domain", "drm_render_minor", "hive_id", "unique_id", "num_xcc"),
    )
)

# The number that KFD gives to the first vector unit of the first GPU.
FIRST_SIMD_ID = 0x80001000


def cpu_properties(cpu: CpuNode, core_id_base: int, links: Links) -> dict[str, int]:
    """Return the properties of a node of processors."""
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
    """Return the properties of a GPU or partition, the `position`th of the host."""
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
    address = read_address(gpu.pci_address)
    location = address.bus << 8 | address.device << 3 | address.function
    return {
        # The function's bits hold the partition as well, once there are several.
        "location_id": location | (node.partition if node.partition_total > 1 else 0),
        "domain": address.domain,
        "drm_render_minor": node.render,
        "hive_id": gpu.hive_id,
        "unique_id": _unique_id(node),
    }


def _unique_id(node: PlacedNode) -> int:
    ids = node.gpu.kfd_unique_ids or (node.gpu.pci_unique_id or 0,)
    return ids[min(node.partition, len(ids) - 1)]
