"""Builds processes that use GPUs, as KFD, DRM and /proc show them, and the totals that GPUs then report.

The format of DRM is that of Linux 6.12; amdgpu_discovery.usage names the sources.
"""

from __future__ import annotations

from amdgpu_discovery.recording.profile import Profile, ProfileError, SimulatedProcess, SimulatedUse
from amdgpu_simulator.hosts.activity import GTT_BYTES
from amdgpu_simulator.hosts.kfd_sysfs import KFD
from amdgpu_simulator.hosts.placement import PlacedGpu, PlacedHost, PlacedNode
from amdgpu_simulator.hosts.tree import Link, Tree

# The first descriptors are standard input, output and error.
FIRST_DESCRIPTOR = 3
FIRST_PASID = 32768


def add_processes(tree: Tree, profile: Profile, placed: PlacedHost) -> None:
    """Add every process, and the totals of GPUs; ProfileError for a process on a GPU that does not exist."""
    for process in profile.processes:
        _add_process(tree, process, placed)
    for position, gpu in enumerate(placed.gpus):
        _add_totals(tree, gpu, [use for each in profile.processes for use in each.uses if use.gpu == position])


def _add_totals(tree: Tree, placed: PlacedGpu, uses: list[SimulatedUse]) -> None:
    gpu = placed.gpu
    attributes = {
        "mem_info_vram_used": sum(use.vram_bytes for use in uses),
        "mem_info_gtt_total": gpu.model.kfd_bytes or GTT_BYTES,
        "mem_info_gtt_used": sum(use.gtt_bytes for use in uses),
    }
    tree.add_attributes(placed.path, attributes)
    if gpu.busy_percent is not None:
        tree.add_attributes(placed.path, {"gpu_busy_percent": gpu.busy_percent})


def _add_process(tree: Tree, process: SimulatedProcess, placed: PlacedHost) -> None:
    proc = f"/proc/{process.pid}"
    tree.add_attributes(proc, {"comm": process.name, "cgroup": f"0::{process.cgroup}"})
    if process.uid is not None:
        # Real, effective, saved and file system uid.
        uids = "\t".join([str(process.uid)] * 4)
        tree.add_file(f"{proc}/status", f"Name:\t{process.name}\nUid:\t{uids}\n".encode())
    tree.add_directory(f"{proc}/fd")
    for descriptor, use in enumerate(process.uses, FIRST_DESCRIPTOR):
        node = _node(placed, process, use)
        if use.client_id:
            tree.entries[f"{proc}/fd/{descriptor}"] = Link(target=f"/dev/dri/renderD{node.render}")
            tree.add_file(f"{proc}/fdinfo/{descriptor}", _fdinfo(node, use))
    if any(use.in_kfd for use in process.uses):
        _add_kfd(tree, process, placed)


def _node(placed: PlacedHost, process: SimulatedProcess, use: SimulatedUse) -> PlacedNode:
    try:
        return placed.gpus[use.gpu].nodes[use.partition]
    except IndexError as error:
        raise ProfileError(
            f"process {process.pid} uses partition {use.partition} of GPU {use.gpu}, which does not exist",
            hint="count GPUs in the order of the profile, from 0",
        ) from error


def _add_kfd(tree: Tree, process: SimulatedProcess, placed: PlacedHost) -> None:
    directory = f"{KFD}/proc/{process.pid}"
    used = {_node(placed, process, use).gpu_id: use for use in process.uses if use.in_kfd}
    # rocm-smi skips a process without a pasid.
    tree.add_attributes(directory, {"pasid": FIRST_PASID + max(use.client_id for use in used.values())})
    # KFD has files for every GPU, used or not.
    for node in placed.nodes:
        use = used.get(node.gpu_id)
        vram, units, copied = (use.vram_bytes, use.compute_units, use.sdma_us) if use else (0, 0, 0)
        tree.add_attributes(directory, {f"vram_{node.gpu_id}": vram, f"sdma_{node.gpu_id}": copied})
        tree.add_attributes(f"{directory}/stats_{node.gpu_id}", {"cu_occupancy": units, "evicted_ms": 0})


def _fdinfo(node: PlacedNode, use: SimulatedUse) -> bytes:
    lines = [
        *("pos:\t0", "flags:\t02100002", "mnt_id:\t26", "ino:\t566"),
        "drm-driver:\tamdgpu",
        f"drm-client-id:\t{use.client_id}",
        f"drm-pdev:\t{node.gpu.pci_address}",
        f"pasid:\t{FIRST_PASID + use.client_id}",
        f"drm-memory-vram:\t{use.vram_bytes >> 10} KiB",
        f"drm-memory-gtt: \t{use.gtt_bytes >> 10} KiB",
        "drm-memory-cpu: \t0 KiB",
        *(f"drm-engine-{engine}:\t{nanoseconds} ns" for engine, nanoseconds in use.engines.items()),
    ]
    return "".join(f"{line}\n" for line in lines).encode()
