"""Write the pack with which `launched.py` starts faster: `python3 -I -S packed.py`.

Packages run it where they compile modules, and remove what it wrote where they remove those.
"""

from __future__ import annotations

import sys

# What every container that asks for GPUs needs.
FIRST = (
    *("amd_container_runtime.shim", "amd_container_runtime.low_level", "amd_container_runtime.create"),
    *("amd_container_runtime.report", "amd_device_spec.settings"),
)
# What those need that are tracked, that a Swarm schedules, that an administrator has settings for, or that are refused.
LATER = (
    *("amd_container_runtime.claim", "amd_container_runtime.memory_claim", "amd_device_spec.oci_removal"),
    *("amd_device_spec.settings_rules", "amd_device_spec.swarm_request", "amdgpu_discovery.unknown_gpus"),
    *("amd_gpu_tracker.survey", "amd_gpu_tracker.liveness", "amd_gpu_tracker.refusals"),
)


def main() -> None:
    """Write the pack beside the compiled modules."""
    from amdgpu_discovery.pack import write_pack

    write_pack(__file__.replace("packed.py", "launched.py"), first=FIRST, later=LATER)


if __name__ == "__main__":
    sys.path.insert(0, __file__.removesuffix("/amd_container_runtime/packed.py"))
    main()
