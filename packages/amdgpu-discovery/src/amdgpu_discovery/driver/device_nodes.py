"""The device nodes of GPUs, with the driver's numbers and the access rights in /dev.

Also finds those that a container cannot open because of a user namespace: that of a rootless engine, or its own.
"""

from __future__ import annotations

import posix

from amdgpu_discovery.driver.drm import DRM_MAJOR
from amdgpu_discovery.driver.kfd_topology import parse_number
from amdgpu_discovery.errors import DeviceNodeError
from amdgpu_discovery.files import CHARACTER_DEVICE, DIRECTORY, FILE_TYPE, PERMISSIONS
from amdgpu_discovery.gpu import DeviceNode, GpuLocation
from amdgpu_discovery.host import Host, is_user_namespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence
    from typing import Any


# All users may read and write.
OPEN_TO_ALL = 0o006
KFD_PATH = "/dev/kfd"
# The kernel gives /dev/kfd another number at every boot.
KFD_NUMBER = "/sys/class/kfd/kfd/dev"


def find_device_nodes(host: Host, gpus: Iterable[GpuLocation]) -> list[DeviceNode]:
    """Return the nodes that a container needs for these GPUs: their card and render nodes, then /dev/kfd; [] for none.

    A card node that is missing in /dev is left out, because ROCm works without it. Raises DeviceNodeError if another
    node is missing, or if a node has another number than the driver gave it.
    """
    paths = [(gpu.card_path, gpu.card_minor or 0, gpu.render_path, gpu.render_minor) for gpu in gpus]
    if not paths:
        return []
    cards = {card for card, _, _, _ in paths}
    numbers = {
        path: (DRM_MAJOR, minor)
        for card, card_minor, render, render_minor in paths
        for path, minor in ((card, card_minor), (render, render_minor))
        if path
    }
    found = {path: status for path in (*numbers, KFD_PATH) if (status := host.stat(path))}
    for path, number in numbers.items():
        if path in found or path not in cards:
            _check_node(path, number, found.get(path))
    kfd_number = read_kfd_number(host)
    if kfd_number is None:
        raise DeviceNodeError(
            f"the kernel gives no device number for {KFD_PATH}: {KFD_NUMBER} is missing or unreadable",
            path=KFD_PATH,
            hint="check that the amdgpu driver is loaded and that /sys is mounted",
        )
    numbers[KFD_PATH] = kfd_number
    _check_node(KFD_PATH, numbers[KFD_PATH], found.get(KFD_PATH))
    return [
        DeviceNode(
            path=path,
            major=numbers[path][0],
            minor=numbers[path][1],
            mode=status.st_mode & PERMISSIONS,
            uid=status.st_uid,
            gid=status.st_gid,
        )
        for path, status in found.items()
    ]


def read_kfd_number(host: Host) -> tuple[int, int] | None:
    """Return the major and minor number of /dev/kfd, None if the kernel gives none."""
    first, _, second = host.read_attribute(KFD_NUMBER).partition(":")
    major, minor = parse_number(first), parse_number(second)
    return (major, minor) if major and minor is not None else None


def closed_nodes(nodes: Iterable[DeviceNode], spec: dict[str, Any]) -> list[DeviceNode]:
    """Return the nodes that users of a container could not open if the host's nodes were bound.

    Device nodes cannot be made in a user namespace, so runtimes bind those of the host, with the host's mode.
    """
    closed = [node for node in nodes if node.mode & OPEN_TO_ALL != OPEN_TO_ALL]
    return closed if closed and (_has_user_namespace(spec) or is_user_namespace()) else []


def closed_nodes_note(closed: Sequence[DeviceNode], spec: dict[str, Any]) -> str:
    """Return a sentence about the closed nodes among the devices of an edited spec, "" if there is none."""
    devices = {str(device.get("path")) for device in spec["linux"]["devices"]} if closed else set()
    paths = [node.path for node in closed if node.path in devices]
    if not paths:
        return ""
    return (
        f"in this user namespace {', '.join(paths)} keep the host's mode and open only to their"
        " group: use crun with '--group-add keep-groups', or a udev rule that sets MODE=\"0666\""
    )


def _check_node(path: str, number: tuple[int, int], found: os.stat_result | None) -> None:
    if found is None:
        subsystem = "kfd" if path == KFD_PATH else "drm"
        raise DeviceNodeError(
            f"{path} is missing although the driver has this device",
            path=path,
            is_missing=True,
            hint=f"udev makes it: 'sudo udevadm trigger --action=add --subsystem-match={subsystem}'",
        )
    kind = found.st_mode & FILE_TYPE
    if kind == DIRECTORY:
        raise DeviceNodeError(
            f"{path} is a directory, which 'docker run -v {path}:{path}' makes where the node is missing",
            path=path,
            is_directory=True,
            hint=f"remove it: 'sudo rmdir {path}'; then run 'sudo udevadm trigger'",
        )
    actual = (posix.major(found.st_rdev), posix.minor(found.st_rdev))
    # On a simulated host, nodes are plain files.
    if kind == CHARACTER_DEVICE and actual != number:
        raise DeviceNodeError(
            f"{path} is device {actual[0]}:{actual[1]}, but the driver's is {number[0]}:{number[1]}",
            path=path,
            is_left_over=True,
            hint="it is left over from an earlier boot; remove it and run 'sudo udevadm trigger'",
        )


def _has_user_namespace(spec: dict[str, Any]) -> bool:
    """Return whether a container gets a user namespace, as with userns-remap of Docker."""
    linux = spec.get("linux")
    namespaces = linux.get("namespaces") if isinstance(linux, dict) else None
    return isinstance(namespaces, list) and any(
        isinstance(namespace, dict) and namespace.get("type") == "user" for namespace in namespaces
    )
