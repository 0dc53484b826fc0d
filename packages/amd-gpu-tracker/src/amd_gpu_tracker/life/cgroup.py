"""Are there processes in a container's cgroup?

Needed only for containers without a pid namespace of their own (`docker run --pid host`): the kernel ends the
processes of all others together with their init. Paths as runc makes them from `linux.cgroupsPath`.
"""

from __future__ import annotations

import os

# Of this machine also where the host is simulated, as /proc is.
CGROUPS = "/sys/fs/cgroup"


def has_processes(cgroups_path: str, *, root: str = CGROUPS) -> bool:
    """Return whether any process is in the cgroup, or below it, in any hierarchy."""
    place = expand(cgroups_path)
    hierarchies = [root, *(f"{root}/{name}" for name in _names(root))]
    return any(_is_populated(f"{hierarchy}{place}") for hierarchy in hierarchies)


def expand(cgroups_path: str) -> str:
    """Return where a cgroup is in its hierarchy: `/docker/ID` as it stands, systemd's `SLICE:PREFIX:NAME` as a unit."""
    slice_name, is_systemd, rest = cgroups_path.partition(":")
    if not is_systemd:
        return "/" + cgroups_path.strip("/")
    prefix, _, name = rest.partition(":")
    unit = name if name.endswith(".slice") else f"{prefix}-{name}.scope" if prefix else f"{name}.scope"
    return f"{_expand_slice(slice_name or 'system.slice')}/{unit}"


def _expand_slice(name: str) -> str:
    """Return the directory of a slice: `a-b.slice` is inside `a.slice`."""
    if name == "-.slice":
        return ""
    parts = name.removesuffix(".slice").split("-")
    return "".join(f"/{'-'.join(parts[: depth + 1])}.slice" for depth in range(len(parts)))


def _is_populated(directory: str) -> bool:
    return any(_has_members(parent) for parent, _, _ in os.walk(directory))


def _has_members(directory: str) -> bool:
    try:
        with open(f"{directory}/cgroup.procs", "rb") as file:
            return bool(file.read(1))
    except OSError:
        return False


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []
