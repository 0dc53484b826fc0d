"""Numbers and names of the kernel's driver that both recording and building a host need."""

from __future__ import annotations

# Types of links, and the weight of one hop of XGMI.
HYPERTRANSPORT, PCIE, XGMI = 1, 2, 11
XGMI_WEIGHT = 15
# Minors of DRM that cards and render nodes share, where the kernel has them.
SHARED_MINORS = range(192, 1 << 20)
# In the order of the kernel; a driver prints those that it knows.
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
# Only some kernels have these, so a GPU has them only if its model lists them.
OPTIONAL_PROPERTIES = (*NEWER_NODES, "capability2")
USUAL_GPU_PROPERTIES = tuple(key for key in (*ALL_NODES, *GPU_NODES, *LAST) if key not in OPTIONAL_PROPERTIES)
# Properties that follow from the rest of a profile; GpuModel.properties has all others.
DERIVED_PROPERTIES = frozenset(
    (
        *("simd_count", "mem_banks_count", "io_links_count", "p2p_links_count"),
        *("simd_id_base", "array_count", "gfx_target_version", "vendor_id", "device_id"),
        *("location_id", "domain", "drm_render_minor", "hive_id", "unique_id", "num_xcc"),
    )
)
