"""Hide GPUs of a simulated host from ordinary processes, as a device cgroup hides those of a real one."""

from __future__ import annotations

import os

from amdgpu_discovery.numbering import locate_gpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from amdgpu_discovery.host import Host

NODES = "/sys/devices/virtual/kfd/kfd/topology/nodes"


def hide_gpus(host: Host, numbers: Collection[int]) -> None:
    """Take from these GPUs' KFD nodes the permission to be read.

    Root reads them nevertheless, unless it lacks CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH.
    """
    for gpu in locate_gpus(host):
        if gpu.number in numbers:
            _forbid(host.path(f"{NODES}/{gpu.kfd_node}"))


def _forbid(directory: str) -> None:
    """Forbid to read the files of a node; its directories are for all to list."""
    for path, _, names in os.walk(directory):
        for name in names:
            os.chmod(os.path.join(path, name), 0)
