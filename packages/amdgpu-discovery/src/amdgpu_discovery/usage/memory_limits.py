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


def region_of(gpu: Gpu) -> str:
    """Return the name that amdgpu gives the memory of a GPU's board."""
    return f"drm/{gpu.pci_address}/vram"


def read_regions(host: Host, path: str) -> dict[str, int]:
    """Return the number of each region in a file of the controller, without regions that have none."""
    lines = (line.split() for line in host.read_attribute(path).splitlines())
    numbers = {words[0]: parse_optional(words[1]) for words in lines if len(words) == 2}
    return {region: number for region, number in numbers.items() if number is not None}


def with_limits(host: Host, gpus: Sequence[Gpu], uses: Iterable[ProcessUse], proc: str) -> list[ProcessUse]:
    """Return what processes use, with the limits that hold for them. A kernel without the controller has none."""
    if host.stat(CAPACITY) is None:
        return list(uses)
    regions = {gpu.number: region_of(gpu) for gpu in gpus}
    found: dict[tuple[str, str], tuple[int, int] | None] = {}
    limited = []
    for use in uses:
        place = _read_cgroup(proc, use.pid), regions[use.gpu]
        if place not in found:
            found[place] = _find_limit(host, *place)
        limit_bytes, charged_bytes = found[place] or (None, None)
        limited.append(use.replace(limit_bytes=limit_bytes, charged_bytes=charged_bytes))
    return limited


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
