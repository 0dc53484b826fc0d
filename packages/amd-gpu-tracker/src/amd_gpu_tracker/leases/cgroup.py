"""Find out whether a container's cgroup has processes.

This matters only for containers without their own pid namespace (`docker run --pid host`): for all others, the kernel
ends the processes together with the init. Paths are made as runc makes them from `linux.cgroupsPath`. The place of a
path that does not begin with `/` depends on the runtime (runc: below its own cgroup on v1, beside it on v2; crun: at
the top), on the cgroup driver and on a user's systemd. So such a cgroup is searched by name.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# Always of this machine, even if the host is simulated, because /proc is too.
CGROUPS = "/sys/fs/cgroup"


# As the parent of a rootless container, systemd takes this for a slice of the user's own systemd.
USER_SLICE = "user.slice"


def has_processes(cgroups_path: str, *, root: str = CGROUPS) -> bool:
    """Return whether any process is in the cgroup, or below it, in any hierarchy."""
    path = expand(cgroups_path)
    hierarchies = [root, *(f"{root}/{name}" for name in names_in(root))]
    if any(_is_populated(f"{hierarchy}{path}") for hierarchy in hierarchies):
        return True
    first = cgroups_path.partition(":")[0]
    begins_elsewhere = not cgroups_path.startswith("/") and first in (cgroups_path, "", USER_SLICE)
    return begins_elsewhere and any(map(_is_populated, _find_by_name(path, root)))


def expand(cgroups_path: str) -> str:
    """Return the path of a cgroup: `/docker/ID` unchanged, systemd's `SLICE:PREFIX:NAME` as that of a unit."""
    slice_name, is_systemd, unit = cgroups_path.partition(":")
    if not is_systemd:
        # As runc does: `..` cannot leave the top.
        return os.path.normpath(f"/{cgroups_path.strip('/')}")
    return f"{_expand_slice(slice_name or 'system.slice')}/{_unit_name(unit)}"


def last_name(cgroups_path: str) -> str:
    """Return the name of a cgroup without its path, "" for the top of the hierarchy."""
    _, is_systemd, unit = cgroups_path.partition(":")
    return _unit_name(unit) if is_systemd else os.path.basename(expand(cgroups_path))


def names_in(directory: str) -> list[str]:
    """Return the names in a directory, [] if it cannot be listed."""
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _unit_name(unit: str) -> str:
    prefix, _, name = unit.partition(":")
    if name.endswith(".slice"):
        return name
    return f"{prefix}-{name}.scope" if prefix else f"{name}.scope"


def _expand_slice(name: str) -> str:
    """Return the directory of a slice: `a-b.slice` is inside `a.slice`."""
    if name == "-.slice":
        return ""
    parts = name.removesuffix(".slice").split("-")
    return "".join(f"/{'-'.join(parts[: depth + 1])}.slice" for depth in range(len(parts)))


def _find_by_name(path: str, root: str) -> Iterator[str]:
    """Yield all cgroups with the last name of a path, or with the name that the systemd driver makes of it."""
    name = path.rpartition("/")[2]
    for directory, names, _ in os.walk(root):
        yield from (f"{directory}/{found}" for found in names if found == name or found.endswith(f"-{name}.scope"))


def _is_populated(directory: str) -> bool:
    return any(_has_members(parent) for parent, _, _ in os.walk(directory))


def _has_members(directory: str) -> bool:
    try:
        with open(f"{directory}/cgroup.procs", "rb") as file:
            return bool(file.read(1))
    except OSError:
        return False
