"""The device nodes through which GPUs are reached, with numbers from sysfs and access from /dev."""

from __future__ import annotations

import os
import stat

from amdgpu_discovery.errors import DeviceNodeError
from amdgpu_discovery.gpu import DeviceNode, DeviceNumber

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.host import Host

KFD_PATH = "/dev/kfd"
# The kernel numbers /dev/kfd anew at every boot.
KFD_NUMBER = "/sys/class/kfd/kfd/dev"


def device_nodes(host: Host, gpus: Iterable[GpuLocation]) -> list[DeviceNode]:
    """Return what a container needs to use these GPUs: each one's card and render node, then /dev/kfd; [] for none.

    A card node that is not in /dev is left out, because ROCm does without. DeviceNodeError where another node is
    missing or where a node has another number than the driver gave it.
    """
    nodes = [node for gpu in gpus for node in _gpu_nodes(host, gpu)]
    return [*nodes, _require_node(host, KFD_PATH)] if nodes else []


def read_device_number(host: Host, path: str) -> DeviceNumber:
    """Return the number that the kernel gave to a node; DeviceNodeError where it does not say."""
    source = _number_source(path)
    major, _, minor = host.read_attribute(source).partition(":")
    if not (major.isdecimal() and minor.isdecimal()) or int(major) == 0:
        raise DeviceNodeError(
            f"the kernel gives no device number for {path}: {source} is missing or unreadable",
            hint="check that the amdgpu driver is loaded and that /sys is mounted",
        )
    return DeviceNumber(path=path, major=int(major), minor=int(minor))


def _gpu_nodes(host: Host, gpu: GpuLocation) -> list[DeviceNode]:
    render = _require_node(host, gpu.render_path)
    card_path = gpu.card_path
    card = _find_node(host, card_path) if card_path else None
    return [card, render] if card else [render]


def _require_node(host: Host, path: str) -> DeviceNode:
    node = _find_node(host, path)
    if node is None:
        subsystem = "kfd" if path == KFD_PATH else "drm"
        raise DeviceNodeError(
            f"{path} is missing although the driver has this device",
            hint=f"udev makes it: 'udevadm trigger --action=add --subsystem-match={subsystem}'",
        )
    return node


def _find_node(host: Host, path: str) -> DeviceNode | None:
    number = read_device_number(host, path)
    access = host.stat(path)
    if access is None:
        return None
    if stat.S_ISCHR(access.st_mode):
        _check_number(number, access.st_rdev)
    return DeviceNode(**number.as_dict(), mode=stat.S_IMODE(access.st_mode), uid=access.st_uid, gid=access.st_gid)


def _check_number(number: DeviceNumber, rdev: int) -> None:
    actual = (os.major(rdev), os.minor(rdev))
    if actual != (number.major, number.minor):
        raise DeviceNodeError(
            f"{number.path} is device {actual[0]}:{actual[1]}, but the driver's is {number.major}:{number.minor}",
            hint="it is left over from an earlier boot; remove it and run 'udevadm trigger'",
        )


def _number_source(path: str) -> str:
    return KFD_NUMBER if path == KFD_PATH else f"/sys/class/drm/{path.rpartition('/')[2]}/dev"
