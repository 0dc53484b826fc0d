"""Make what the launcher starts containers faster with, a pack and a python: `python3 -I -S packed.py`.

Packages run it where they compile modules, and remove what it wrote where they remove those.
"""

from __future__ import annotations

import sys

# What every container that asks for GPUs needs.
FIRST = (
    *("amd_container_runtime.packaged", "amd_container_runtime.low_level", "amd_container_runtime.create"),
    *("amd_container_runtime.report", "amd_device_spec.settings"),
)
# What those need that are partitions or tracked, that come while others are, and that wait, conflict or are the first.
# The rest (settings, Swarm) is rare enough to be imported from its files.
LATER = (
    ("amdgpu_discovery.partitions",),
    ("amd_container_runtime.claim",),
    ("amd_gpu_tracker.life.lease_scan",),
    (
        "amd_gpu_tracker.records.lock_waiting",
        "amd_gpu_tracker.claims.conflicts",
        "amd_gpu_tracker.records.tracked_gpus",
    ),
)


def main() -> None:
    """Write the pack beside the compiled modules, and make the python that reads it beside all modules."""
    from amd_container_runtime.quick_python import make_quick_python
    from amdgpu_discovery.pack import write_pack

    write_pack(__file__.replace("packed.py", "packaged.py"), first=FIRST, later=LATER)
    modules = __file__.removesuffix("/amd_container_runtime/packed.py")
    make_quick_python(f"{modules.rpartition('/')[0]}/quick", sys.executable, modules)


if __name__ == "__main__":
    sys.path.insert(0, __file__.removesuffix("/amd_container_runtime/packed.py"))
    main()
