"""The device nodes of the host that an engine passes for `--device`, as Docker and Podman each read it."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterator
from typing import Any

from amd_ctk.explain.container import PODMAN
from amdgpu_discovery.device_nodes import KFD_NUMBER, KFD_PATH
from amdgpu_discovery.drm import DRM_MAJOR
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

DRI = "/dev/dri"
# Where nothing is said.
EVERY_ACCESS = "rwm"


class DeviceMapping(Value):
    """A node or a directory of the host, where it is in the container, and what may be done with it."""

    source: str
    target: str
    access: str = EVERY_ACCESS


def parse_mapping(asked: str, engine: str) -> DeviceMapping:
    """Return what `--device SOURCE[:TARGET][:ACCESS]` says."""
    # Docker cleans the last path only, and none where all three parts are given.
    clean = str if engine == PODMAN else posixpath.normpath
    source, *rest = asked.split(":", 2)
    if not rest:
        return DeviceMapping(source=clean(source), target=clean(source))
    if len(rest) == 2:
        return DeviceMapping(source=source, target=rest[0], access=rest[1])
    if _is_access(rest[0]):
        return DeviceMapping(source=clean(source), target=clean(source), access=rest[0])
    return DeviceMapping(source=source, target=clean(rest[0]))


def find_mapped(mapping: DeviceMapping, engine: str, host: Host) -> list[dict[str, Any]]:
    """Return the node at the source of a mapping, or those below it, as they are in the container; [] for none."""
    found = list(find_nodes(posixpath.normpath(mapping.source), host))
    return [{**node, "path": _inside(node["path"], mapping, engine)} for node in found]


def find_nodes(path: str, host: Host) -> Iterator[dict[str, Any]]:
    """Yield the device node at a path, or those in a directory, as engines pass them."""
    names = sorted(host.names(path))
    if names:
        for name in names:
            yield from find_nodes(f"{path}/{name}", host)
    elif (found := host.stat(path)) is not None:
        numbers = _read_number(path, found, host)
        if numbers:
            kind = "b" if stat.S_ISBLK(found.st_mode) else "c"
            # A node that an engine passes keeps the host's mode and owner.
            access = {"fileMode": stat.S_IMODE(found.st_mode), "uid": found.st_uid, "gid": found.st_gid}
            yield {"path": path, "type": kind, "major": numbers[0], "minor": numbers[1], **access}


def _is_access(word: str) -> bool:
    return bool(word) and set(word) <= set(EVERY_ACCESS) and len(set(word)) == len(word)


def _inside(path: str, mapping: DeviceMapping, engine: str) -> str:
    """Return where the node of a path is in the container; Docker replaces the source's letters, whatever is behind."""
    if path == posixpath.normpath(mapping.source):
        return mapping.target
    if engine == PODMAN:
        return posixpath.join(posixpath.normpath(mapping.target), path.removeprefix(mapping.source).lstrip("/"))
    return path.replace(mapping.source, mapping.target, 1)


def _read_number(path: str, found: os.stat_result, host: Host) -> tuple[int, int] | None:
    if stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode):
        return os.major(found.st_rdev), os.minor(found.st_rdev)
    # A simulated host has plain files for nodes: their names and sysfs tell the numbers.
    name = os.path.basename(path)
    digits = name.lstrip("abcdefghijklmnopqrstuvwxyzD")
    if path.startswith(f"{DRI}/") and digits.isdecimal():
        return DRM_MAJOR, int(digits)
    major, _, minor = host.read_attribute(KFD_NUMBER).partition(":") if path == KFD_PATH else ("", "", "")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None
