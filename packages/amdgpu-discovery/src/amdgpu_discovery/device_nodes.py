"""The device nodes through which GPUs are reached, with the driver's numbers and access from /dev."""

from __future__ import annotations

import posix

from amdgpu_discovery.drm import DRM_MAJOR
from amdgpu_discovery.errors import DeviceNodeError
from amdgpu_discovery.gpu import DeviceNode, DeviceNumber
from amdgpu_discovery.paths import CHARACTER_DEVICE, FILE_TYPE, PERMISSIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.host import Host

KFD_PATH = "/dev/kfd"
# The kernel gives /dev/kfd another number at every boot.
KFD_NUMBER = "/sys/class/kfd/kfd/dev"


def find_device_nodes(host: Host, gpus: Iterable[GpuLocation]) -> list[DeviceNode]:
    """Return what a container needs to use these GPUs: each one's card and render node, then /dev/kfd; [] for none.

    A card node that is not in /dev is left out, because ROCm does without. DeviceNodeError where another node is
    missing or where a node has another number than the driver gave it.
    """
    nodes = [node for gpu in gpus for node in _gpu_nodes(host, gpu)]
    return [*nodes, _require_node(host, KFD_PATH, _read_kfd_number(host), "kfd")] if nodes else []


def drm_number(path: str, minor: int) -> DeviceNumber:
    """Return the number of a card or render node. Its name tells it (drm_sysfs.c), so sysfs need not be asked."""
    return DeviceNumber(path=path, major=DRM_MAJOR, minor=minor)


def _gpu_nodes(host: Host, gpu: GpuLocation) -> list[DeviceNode]:
    render = _require_node(host, gpu.render_path, (DRM_MAJOR, gpu.render_minor), "drm")
    card_path = gpu.card_path
    card = _find_node(host, card_path, (DRM_MAJOR, gpu.card_minor or 0)) if card_path else None
    return [card, render] if card else [render]


def _read_kfd_number(host: Host) -> tuple[int, int]:
    major, _, minor = host.read_attribute(KFD_NUMBER).partition(":")
    if not (major.isdecimal() and minor.isdecimal()) or int(major) == 0:
        raise DeviceNodeError(
            f"the kernel gives no device number for {KFD_PATH}: {KFD_NUMBER} is missing or unreadable",
            hint="check that the amdgpu driver is loaded and that /sys is mounted",
        )
    return int(major), int(minor)


def _require_node(host: Host, path: str, number: tuple[int, int], subsystem: str) -> DeviceNode:
    node = _find_node(host, path, number)
    if node is None:
        raise DeviceNodeError(
            f"{path} is missing although the driver has this device",
            hint=f"udev makes it: 'udevadm trigger --action=add --subsystem-match={subsystem}'",
        )
    return node


def _find_node(host: Host, path: str, number: tuple[int, int]) -> DeviceNode | None:
    access = host.stat(path)
    if access is None:
        return None
    mode = access.st_mode
    if mode & FILE_TYPE == CHARACTER_DEVICE:
        _check_number(path, number, access.st_rdev)
    major, minor = number
    return DeviceNode(
        path=path, major=major, minor=minor, mode=mode & PERMISSIONS, uid=access.st_uid, gid=access.st_gid
    )


def _check_number(path: str, number: tuple[int, int], rdev: int) -> None:
    actual = (posix.major(rdev), posix.minor(rdev))
    if actual != number:
        raise DeviceNodeError(
            f"{path} is device {actual[0]}:{actual[1]}, but the driver's is {number[0]}:{number[1]}",
            hint="it is left over from an earlier boot; remove it and run 'udevadm trigger'",
        )
