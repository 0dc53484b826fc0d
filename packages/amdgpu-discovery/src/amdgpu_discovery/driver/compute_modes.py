"""How many partitions a compute mode makes of a GPU.

Source: drivers/gpu/drm/amd/amdgpu/amdgpu_gfx.c, drivers/gpu/drm/amd/amdgpu/aqua_vanjaram.c.
"""

from __future__ import annotations

from amdgpu_discovery.host import Host

# CPX makes one partition of every accelerator die (XCC).
PARTITIONS_BY_MODE = {"SPX": 1, "DPX": 2, "TPX": 3, "QPX": 4}
# The modes of a GPU with this number of XCCs.
MODES_BY_XCC_COUNT = {8: "SPX, DPX, QPX, CPX", 6: "SPX, TPX, CPX", 4: "SPX, DPX, CPX", 2: "SPX, CPX"}


def read_partition_total(host: Host, path: str) -> int | None:
    """Return how many partitions the mode of a PCI function makes; None if the driver does not report it.

    GPUs that cannot be partitioned do not have this file and count as one.
    """
    mode = host.read_attribute(f"{path}/current_compute_partition")
    if mode != "CPX":
        return PARTITIONS_BY_MODE.get(mode or "SPX")
    modes = host.read_attribute(f"{path}/available_compute_partition")
    return next((count for count, names in MODES_BY_XCC_COUNT.items() if names == modes), None)
