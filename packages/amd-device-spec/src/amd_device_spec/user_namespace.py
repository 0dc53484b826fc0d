"""What a user namespace changes about device nodes: that of a rootless engine, or that of a container alone."""

from __future__ import annotations

from amdgpu_discovery.files import read_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from amdgpu_discovery.gpu import DeviceNode

# All users may read and write.
OPEN_TO_ALL = 0o006

# user_namespaces(7): outside of every namespace all ids stand for themselves.
IDENTITY = b"0 0 4294967295".split()


def is_user_namespace() -> bool:
    """Return whether this process runs in a user namespace other than the initial one."""
    return read_file("/proc/self/uid_map").split() != IDENTITY


def closed_nodes(nodes: Iterable[DeviceNode], spec: dict[str, Any]) -> list[DeviceNode]:
    """Return the nodes that users of a container will not be able to open if the host's are bound.

    Device nodes cannot be made in a user namespace, so runtimes bind those of the host, with the host's mode.
    """
    closed = [node for node in nodes if node.mode & OPEN_TO_ALL != OPEN_TO_ALL]
    return closed if closed and (_has_user_namespace(spec) or is_user_namespace()) else []


def closed_nodes_note(closed: Sequence[DeviceNode], spec: dict[str, Any]) -> str:
    """Return a sentence about the closed nodes that an edited spec has as devices, "" if there is none."""
    devices = {str(device.get("path")) for device in spec["linux"]["devices"]} if closed else set()
    paths = [node.path for node in closed if node.path in devices]
    if not paths:
        return ""
    return (
        f"in this user namespace {', '.join(paths)} keep the host's mode and open only to their"
        " group: use crun with '--group-add keep-groups', or a udev rule that sets MODE=\"0666\""
    )


def _has_user_namespace(spec: dict[str, Any]) -> bool:
    """Return whether a container gets a user namespace, as by userns-remap of Docker."""
    linux = spec.get("linux")
    namespaces = linux.get("namespaces") if isinstance(linux, dict) else None
    return isinstance(namespaces, list) and any(
        isinstance(namespace, dict) and namespace.get("type") == "user" for namespace in namespaces
    )
