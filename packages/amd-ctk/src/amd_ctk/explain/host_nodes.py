"""The host's device nodes that an engine passes for `--device`, as Docker and Podman each read it."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterator, Sequence
from typing import Any

from amd_ctk.engines.engine_words import PODMAN
from amdgpu_discovery.driver.device_nodes import KFD_PATH, read_kfd_number
from amdgpu_discovery.driver.drm import DRM_MAJOR
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

DRI = "/dev/dri"
# The GPU of Windows in WSL.
DXG = "/dev/dxg"
# What engines skip below a directory (GetDevices of opencontainers' libcontainer/devices).
SKIPPED = frozenset(("pts", "shm", "fd", "mqueue", ".lxc", ".lxd-mounts", ".udev"))
# /dev of a large server has some thousands of files. The root directory has /proc and /sys below it.
MOST_FILES = 10_000
# The default.
EVERY_ACCESS = "rwm"


class DeviceMapping(Value):
    """A node or a directory of the host, its path in the container, and the access to it."""

    source: str
    target: str
    access: str = EVERY_ACCESS


def parse_mapping(asked: str, engine: str) -> DeviceMapping:
    """Parse `--device SOURCE[:TARGET][:ACCESS]`."""
    # Docker cleans only the last path, and none if all three parts are given.
    clean = str if engine == PODMAN else posixpath.normpath
    source, *rest = asked.split(":", 2)
    if not rest:
        return DeviceMapping(source=clean(source), target=clean(source))
    if len(rest) == 2:
        target = rest[0] or (source if engine == PODMAN else "")
        # Podman takes an empty one for a directory.
        access = rest[1] or EVERY_ACCESS * (engine == PODMAN)
        return DeviceMapping(source=source, target=target, access=access)
    if is_access(rest[0]):
        return DeviceMapping(source=clean(source), target=clean(source), access=rest[0])
    return DeviceMapping(source=source, target=clean(rest[0]) or source)


def is_cdi_name(asked: str) -> bool:
    """Return whether the value of `--device` is the qualified name of a CDI device."""
    kind, equals, name = asked.partition("=")
    return bool(equals and name) and not asked.startswith("/") and kind.count("/") == 1


def is_access(word: str) -> bool:
    """Return whether a word is an access to a node, such as "rw"."""
    return bool(word) and set(word) <= set(EVERY_ACCESS) and len(set(word)) == len(word)


def find_mapped(mapping: DeviceMapping, engine: str, host: Host) -> list[dict[str, Any]]:
    """Return the nodes at or below the source of a mapping, with their paths in the container; [] if there are none."""
    if engine == PODMAN:
        # Relative to the caller's directory.
        mapping = mapping.replace(source=os.path.join(os.getcwd(), mapping.source))
    source = posixpath.normpath(mapping.source)
    if mapping.source.endswith("/") and not os.path.isdir(host.path(source)):
        return []
    found = list(find_nodes(source, host))
    return [{**node, "path": _inside(node["path"], mapping, engine)} for node in found]


def find_mounted(mounts: Sequence[tuple[str, str]], host: Host) -> list[dict[str, Any]]:
    """Return the nodes of GPUs in directories and nodes of the host that are mounted, with their paths inside."""
    nodes = [node for path in (KFD_PATH, DRI) for node in find_nodes(path, host)]
    return [
        {**node, "path": posixpath.normpath(f"{target}/{posixpath.relpath(node['path'], source)}")}
        for source, target in mounts
        for node in nodes
        if posixpath.commonpath((source, node["path"])) == source
    ]


def find_nodes(path: str, host: Host) -> Iterator[dict[str, Any]]:
    """Yield the device node at a path, or those below a directory, as engines pass them.

    ToolkitError if the directory has more than `MOST_FILES` files.
    """
    for count, each in enumerate(_find_files(path, host)):
        if count == MOST_FILES:
            problem = f"{path}: there are more than {MOST_FILES:,} files below this directory"
            raise ToolkitError(problem, hint="name the device nodes, as in --device /dev/kfd --device /dev/dri")
        found = _stat(each, host)
        numbers = _read_number(each, found, host) if found else None
        if found and numbers:
            kind = "b" if stat.S_ISBLK(found.st_mode) else "c"
            # A node that an engine passes keeps the host's mode and owner.
            access = {"fileMode": stat.S_IMODE(found.st_mode), "uid": found.st_uid, "gid": found.st_gid}
            yield {"path": each, "type": kind, "major": numbers[0], "minor": numbers[1], **access}


def _find_files(path: str, host: Host) -> Iterator[str]:
    """Yield a path or, if it is a directory, the files below it; there, engines follow no links."""
    top = host.path(path)
    if not os.path.isdir(top):
        yield path
        return
    for directory, directories, files in os.walk(top):
        directories[:] = sorted(name for name in directories if name not in SKIPPED)
        inside = directory.removeprefix(host.path("")).rstrip("/")
        yield from (f"{inside}/{name}" for name in sorted(files) if not os.path.islink(f"{directory}/{name}"))


def _stat(path: str, host: Host) -> os.stat_result | None:
    """Return the status of what a path leads to, None if it is too long, loops, or may not be read."""
    try:
        return host.stat(path)
    except OSError:
        return None


def _inside(path: str, mapping: DeviceMapping, engine: str) -> str:
    """Return the path of a node in the container. Docker replaces the source as plain text, whatever follows it."""
    if path == posixpath.normpath(mapping.source):
        return mapping.target
    if engine == PODMAN:
        return posixpath.join(posixpath.normpath(mapping.target), path.removeprefix(mapping.source).lstrip("/"))
    return path.replace(mapping.source, mapping.target, 1)


def _read_number(path: str, found: os.stat_result, host: Host) -> tuple[int, int] | None:
    if stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode):
        return os.major(found.st_rdev), os.minor(found.st_rdev)
    # A simulated host has plain files as nodes, so names and sysfs give the numbers.
    name = os.path.basename(path)
    digits = name.lstrip("abcdefghijklmnopqrstuvwxyzD")
    if path.startswith(f"{DRI}/") and digits.isdecimal():
        return DRM_MAJOR, int(digits)
    return read_kfd_number(host) if path == KFD_PATH else None
