"""What an engine writes into a container's spec before the runtime sees it, as far as GPUs are concerned."""

from __future__ import annotations

import os
import stat

from amd_ctk.cdi.engine_devices import SPEC_DIRECTORIES, SPEC_SUFFIXES
from amd_device_spec.cdi_text import BrokenText, parse_spec
from amdgpu_discovery.device_nodes import KFD_NUMBER, KFD_PATH
from amdgpu_discovery.drm import DRM_MAJOR
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from amd_ctk.explain.container import Container
    from amdgpu_discovery.host import Host

DRI = "/dev/dri"
LARGEST_SPEC = 16 * 1024 * 1024
# Of a node in a spec.
ACCESS = ("fileMode", "uid", "gid")


class EngineSpec(Value):
    """A spec, and why the engine does not start the container."""

    spec: dict[str, Any]
    refusals: tuple[ToolkitError, ...] = ()


def build_spec(container: Container, host: Host) -> EngineSpec:
    """Return the spec that an engine would hand to the runtime."""
    refusals: list[ToolkitError] = []
    devices = list(_find_devices(container, host, refusals))
    rules = [
        {"allow": container.privileged, "access": "rwm"},
        *({"allow": True, "type": device["type"], "access": "rwm", **_numbers(device)} for device in devices),
    ]
    namespace = container.user_namespace not in ("", "host")
    spec = {
        "process": {"env": list(container.environment), "capabilities": {"bounding": _capabilities(container)}},
        "linux": {
            # To a privileged container engines give every node; the rule for all devices opens them.
            "devices": _host_nodes(host, devices) if container.privileged else devices,
            "resources": {"devices": rules},
            "namespaces": [{"type": "user"}] if namespace else [],
        },
    }
    return EngineSpec(spec=spec, refusals=tuple(refusals))


def _capabilities(container: Container) -> list[str]:
    every = container.privileged or not {"ALL", "SYS_ADMIN"}.isdisjoint(container.capabilities)
    return ["CAP_SYS_ADMIN"] if every else []


def _numbers(device: dict[str, Any]) -> dict[str, Any]:
    return {"major": device["major"], "minor": device["minor"]}


def _host_nodes(host: Host, devices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return these devices, and those of GPUs that the host has beside them."""
    paths = {device["path"] for device in devices}
    found = (node for path in (KFD_PATH, DRI) for node in _find_nodes(path, host))
    return [*devices, *(node for node in found if node["path"] not in paths)]


def _find_devices(container: Container, host: Host, refusals: list[ToolkitError]) -> Iterator[dict[str, Any]]:
    for asked in container.devices:
        if is_cdi_name(asked):
            nodes = _find_cdi_nodes(asked, host)
            if nodes is None:
                message = f"--device {asked}: no CDI spec of this host has this device"
                refusals.append(ToolkitError(message, hint="'amd-ctk cdi list' shows those of AMD"))
            yield from nodes or []
            continue
        path = asked.partition(":")[0]
        found = list(_find_nodes(path, host))
        if not found:
            refusals.append(ToolkitError(f"--device {path}: this host has no such device"))
        yield from found


def is_cdi_name(asked: str) -> bool:
    """Return whether the value of `--device` is the qualified name of a CDI device."""
    kind, equals, name = asked.partition("=")
    return bool(equals and name) and not asked.startswith("/") and kind.count("/") == 1


def _find_nodes(path: str, host: Host) -> Iterator[dict[str, Any]]:
    """Yield the device node at a path, or those in a directory, as engines pass them."""
    names = sorted(host.names(path))
    if names:
        for name in names:
            yield from _find_nodes(f"{path}/{name}", host)
    elif (found := host.stat(path)) is not None:
        numbers = _read_number(path, found, host)
        if numbers:
            kind = "b" if stat.S_ISBLK(found.st_mode) else "c"
            # A node that an engine passes keeps the host's mode and owner.
            access = {"fileMode": stat.S_IMODE(found.st_mode), "uid": found.st_uid, "gid": found.st_gid}
            yield {"path": path, "type": kind, "major": numbers[0], "minor": numbers[1], **access}


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


def _find_cdi_nodes(asked: str, host: Host) -> list[dict[str, Any]] | None:
    """Return the nodes of a CDI device, of the last directory that defines it; None where none does."""
    kind, _, name = asked.partition("=")
    found = None
    for spec in _read_specs(host):
        if spec.get("kind") == kind:
            for device in _dicts(spec.get("devices")):
                if device.get("name") == name:
                    found = [*_cdi_nodes(spec, host), *_cdi_nodes(device, host)]
    return found


def _cdi_nodes(owner: dict[str, Any], host: Host) -> Iterator[dict[str, Any]]:
    edits = owner.get("containerEdits")
    for node in _dicts(edits.get("deviceNodes") if isinstance(edits, dict) else None):
        path = str(node.get("path", ""))
        if isinstance(node.get("major"), int) and isinstance(node.get("minor"), int):
            access = {name: node[name] for name in ACCESS if isinstance(node.get(name), int)}
            yield {"path": path, "type": "c", "major": node["major"], "minor": node["minor"], **access}
        else:
            # Where a CDI spec says no mode, engines make the node 0666.
            found = _find_nodes(str(node.get("hostPath") or path), host)
            yield from ({name: value for name, value in one.items() if name not in ACCESS} for one in found)


def _read_specs(host: Host) -> Iterator[dict[str, Any]]:
    for directory in SPEC_DIRECTORIES:
        for name in sorted(host.names(directory)):
            if name.endswith(SPEC_SUFFIXES):
                spec = _read_spec(host, f"{directory}/{name}")
                if isinstance(spec, dict):
                    yield spec


def _read_spec(host: Host, path: str) -> object:
    try:
        with open(host.path(path), "rb") as file:
            return parse_spec(file.read(LARGEST_SPEC)).tree
    except (OSError, BrokenText):
        return None


def _dicts(listed: object) -> Iterable[dict[str, Any]]:
    return (entry for entry in listed if isinstance(entry, dict)) if isinstance(listed, list) else ()
