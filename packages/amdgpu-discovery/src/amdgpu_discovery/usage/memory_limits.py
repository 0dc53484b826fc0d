"""Reads which limits on the memory of GPUs the kernel enforces for processes, and what counts towards them.

Source: Documentation/admin-guide/cgroup-v2.rst, DMEM. A limit of a cgroup holds for those below it, too.
"""

from __future__ import annotations

from amdgpu_discovery.usage.amounts import parse_optional
from amdgpu_discovery.usage.owners import read_cgroups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from amdgpu_discovery.gpu import Gpu
    from amdgpu_discovery.host import Host
    from amdgpu_discovery.usage.kfd_processes import ProcessUse

    # A limit in bytes, and how much counts towards it.
    Limit = tuple[int | None, int | None]

CGROUPS = "/sys/fs/cgroup"
CONTROLLER = "dmem"
# A line for each region: its name and its size in bytes. Only the root of the hierarchy has it.
CAPACITY = f"{CGROUPS}/dmem.capacity"
# These have the same lines, and `max` for no limit.
LIMIT_FILE = "dmem.max"
CHARGED_FILE = "dmem.current"
# Engines and systemd nest a handful.
MOST_LEVELS = 64
# The line of the unified hierarchy among a process's cgroups.
UNIFIED = "0::"
NO_LIMIT: Limit = (None, None)


def region_of(gpu: Gpu) -> str:
    """Return the name that amdgpu gives the memory of a GPU's board."""
    return f"drm/{gpu.pci_address}/vram"


def read_regions(host: Host, path: str) -> dict[str, int]:
    """Return the number of each region in a file of the controller, without regions that have none."""
    lines = (line.split() for line in host.read_attribute(path).splitlines())
    numbers = {words[0]: parse_optional(words[1]) for words in lines if len(words) == 2}
    return {region: number for region, number in numbers.items() if number is not None}


def has_controller(host: Host) -> bool:
    """Return whether the kernel has the controller, without which nothing has a limit."""
    return host.stat(CAPACITY) is not None


def with_limits(host: Host, gpus: Sequence[Gpu], uses: Iterable[ProcessUse], proc: str) -> list[ProcessUse]:
    """Return what processes use, with the limits that hold for them."""
    if not has_controller(host):
        return list(uses)
    limits = MemoryLimits(host, proc)
    gpu_by_number = {gpu.number: gpu for gpu in gpus}
    limited = []
    for use in uses:
        limit_bytes, charged_bytes = limits.find(use.pid, gpu_by_number[use.gpu])
        limited.append(use.replace(limit_bytes=limit_bytes, charged_bytes=charged_bytes))
    return limited


class MemoryLimits:
    """The limits that hold for processes; the files of each cgroup are read once."""

    def __init__(self, host: Host, proc: str) -> None:
        """Look at the cgroups of a host; `proc` is the directory of the processes."""
        self._host = host
        self._proc = proc
        self._found: dict[tuple[str, str], Limit] = {}

    def find(self, pid: int, gpu: Gpu) -> Limit:
        """Return the smallest limit above a process on memory of a GPU, and what counts towards it, in bytes.

        Both are None without a limit.
        """
        place = _read_cgroup(self._proc, pid), region_of(gpu)
        if place not in self._found:
            self._found[place] = _find_limit(self._host, *place) or NO_LIMIT
        return self._found[place]


def _read_cgroup(proc: str, pid: int) -> str:
    """Return the cgroup of a process in the unified hierarchy, "" if it has none or is gone."""
    lines = read_cgroups(proc, pid).split("\n")
    return next((line.removeprefix(UNIFIED) for line in lines if line.startswith(UNIFIED)), "")


def _find_limit(host: Host, cgroup: str, region: str) -> tuple[int, int] | None:
    """Return the smallest limit of a cgroup and those above it, and what is charged there; None without a limit."""
    limits = []
    # A cgroup outside of the caller's namespace has a path with "..", which names nothing here.
    if ".." in cgroup.split("/"):
        return None
    # Users nest cgroups as deep as they like.
    for _ in range(MOST_LEVELS):
        if not cgroup.strip("/"):
            break
        limit = read_regions(host, f"{CGROUPS}{cgroup}/{LIMIT_FILE}").get(region)
        if limit is not None:
            limits.append((limit, read_regions(host, f"{CGROUPS}{cgroup}/{CHARGED_FILE}").get(region, 0)))
        cgroup = cgroup.rpartition("/")[0]
    return min(limits, default=None)
