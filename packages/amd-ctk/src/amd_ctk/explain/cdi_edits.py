"""What engines put into a container's spec for a CDI device."""

from __future__ import annotations

from amd_ctk.cdi.engine_devices import LARGEST_SPEC, read_spec_files, resolve_devices
from amd_ctk.explain.host_nodes import EVERY_ACCESS, find_nodes
from amd_device_spec.cdi_text import BrokenText, parse_spec
from amd_device_spec.cdi_version import VERSIONS
from amd_gpu_tracker.claims.hook_entries import is_check_hook, is_claim_hook
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.plain_files import read_plain_file
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from amd_ctk.cdi.engine_devices import SpecFile
    from amdgpu_discovery.host import Host

# Of a node in a spec.
ACCESS = ("fileMode", "uid", "gid")


class CdiEdits(Value):
    """The nodes of a CDI device with their access, its variables, and whether hooks check the image and claim GPUs."""

    nodes: tuple[dict[str, Any], ...] = ()
    environment: tuple[str, ...] = ()
    checks_image: bool = False
    is_claimed: bool = False


def is_cdi_name(asked: str) -> bool:
    """Return whether the value of `--device` is the qualified name of a CDI device."""
    kind, equals, name = asked.partition("=")
    return bool(equals and name) and not asked.startswith("/") and kind.count("/") == 1


def find_cdi_edits(asked: str, host: Host, *, latest: str = "") -> CdiEdits:
    """Return what the device of a qualified name adds; ToolkitError where the engine does not find the name.

    `latest` is the latest version of a spec that the engine reads, "" where that is not known.
    """
    directories = read_spec_files(host)
    read = [[file for file in files if not _is_later(file, latest)] for files in directories]
    device = next((device for device in resolve_devices(read) if device.name == asked), None)
    later = next((file for files in directories for file in files if asked in file.names), None)
    if device is None and later:
        message = f"--device {asked}: the engine leaves {later.path} out, which has version {later.version} of CDI"
        raise ToolkitError(message, hint="'amd-ctk doctor' prints the command that writes one that it reads")
    if device is None:
        message = f"--device {asked}: no CDI spec of this host has this device"
        raise ToolkitError(message, hint="'amd-ctk cdi list' shows those of AMD")
    if device.is_conflict:
        message = f"--device {asked}: no engine can resolve this name, which {' and '.join(device.paths)} define"
        raise ToolkitError(message, hint="remove one of these files")
    return _read_edits(device.paths[-1], asked.partition("=")[2], host)


def _is_later(file: SpecFile, latest: str) -> bool:
    known = latest and file.version in VERSIONS
    return bool(known and VERSIONS.index(file.version) > VERSIONS.index(latest))


def _read_edits(path: str, name: str, host: Host) -> CdiEdits:
    try:
        spec: Any = parse_spec(read_plain_file(path, largest=LARGEST_SPEC)[0]).tree
    except (OSError, BrokenText) as error:
        raise ToolkitError(f"the CDI spec {path} cannot be read: {error}") from error
    owners = [spec, *(device for device in spec["devices"] if device["name"] == name)]
    edits = [owner.get("containerEdits") or {} for owner in owners]
    hooks = [hook for part in edits for hook in part.get("hooks") or ()]
    return CdiEdits(
        nodes=tuple(node for part in edits for node in _nodes(part.get("deviceNodes") or (), host)),
        environment=tuple(entry for part in edits for entry in part.get("env") or ()),
        checks_image=any(is_claim_hook(hook) or is_check_hook(hook) for hook in hooks),
        is_claimed=any(is_claim_hook(hook) for hook in hooks),
    )


def _nodes(listed: Iterable[dict[str, Any]], host: Host) -> Iterator[dict[str, Any]]:
    for node in listed:
        path, permissions = node["path"], {"access": node.get("permissions") or EVERY_ACCESS}
        if isinstance(node.get("major"), int) and isinstance(node.get("minor"), int):
            access = {key: node[key] for key in ACCESS if isinstance(node.get(key), int)}
            yield {"path": path, "type": "c", "major": node["major"], "minor": node["minor"], **access, **permissions}
        else:
            # Where a CDI spec says no mode, engines make the node 0666.
            for found in find_nodes(str(node.get("hostPath") or path), host):
                kept = {key: value for key, value in found.items() if key not in ACCESS}
                yield {**kept, "path": path, **permissions}
