"""Write the pack with which `hook.py` starts faster: `python3 -I -S packed.py`.

Packages run it where they compile modules, and remove what it wrote where they remove those.
"""

from __future__ import annotations

import sys

# What every release needs, and what a claim needs besides.
FIRST = ("amd_gpu_tracker.hooks.program", "amd_gpu_tracker.claims.release")
LATER = (
    ("amd_gpu_tracker.claims.given_gpus", "amd_gpu_tracker.claims.reservation", "amdgpu_discovery.numbering"),
    ("amdgpu_discovery.partitions",),
    ("amd_gpu_tracker.life.lease_scan",),
    (
        "amd_gpu_tracker.records.lock_waiting",
        "amd_gpu_tracker.claims.conflicts",
        "amd_gpu_tracker.records.tracked_gpus",
    ),
)


def main() -> None:
    """Write the pack beside the compiled modules."""
    from amdgpu_discovery.pack import write_pack

    write_pack(__file__.replace("packed.py", "hook.py"), first=FIRST, later=LATER)


if __name__ == "__main__":
    sys.path.insert(0, __file__.removesuffix("/amd_gpu_tracker/packed.py"))
    main()
