"""Device nodes of a simulated host: which it has, and make them where no device of the machine has their numbers."""

from __future__ import annotations

import grp
import os
import re
import stat
from collections.abc import Mapping

from amdgpu_discovery.drm import DRM_MAJOR
from amdgpu_discovery.host import Host
from amdgpu_discovery.simulate.placement import place_host
from amdgpu_discovery.simulate.profile import Profile, ProfileError

KFD = "kfd"
MINOR = re.compile("[0-9]{1,6}")
# Of linux/kdev_t.h.
LARGEST_MAJOR = 4095


def numbers_of_nodes(profile: Profile) -> dict[str, tuple[int, int]]:
    """Return major and minor of every device node of a host, by its name below /dev; ProfileError."""
    found: dict[str, tuple[int, int]] = {}
    if profile.driver and profile.driver.kfd_major is not None:
        found[KFD] = (_checked_major(profile.driver.kfd_major), 0)
    for device in place_host(profile).devices:
        for kind, minor in (("card", device.card), ("renderD", device.render)):
            if minor is not None and MINOR.fullmatch(str(minor)):
                found[f"dri/{kind}{minor}"] = (DRM_MAJOR, int(minor))
    return found


def _checked_major(major: int) -> int:
    if not 0 < major <= LARGEST_MAJOR:
        raise ProfileError(f"KFD cannot have the major number {major}", hint=f"choose one up to {LARGEST_MAJOR}")
    return major


def make_nodes(host: Host, numbers: Mapping[str, tuple[int, int]]) -> list[str]:
    """Make device nodes of the plain files in /dev; return the names that stay files; OSError.

    A node with the number of a device of the machine would be that device.
    """
    left = [name for name, number in numbers.items() if _is_of_machine(*number)]
    for name, number in numbers.items():
        path = host.path(f"/dev/{name}")
        if name not in left and stat.S_ISREG(os.lstat(path).st_mode):
            _make_node(path, name, number)
    return left


def _is_of_machine(major: int, minor: int) -> bool:
    """Return whether the machine has this DRM device, or any driver with KFD's major."""
    if major == DRM_MAJOR:
        return os.path.lexists(f"/sys/dev/char/{major}:{minor}")
    return major in _character_majors()


def _character_majors() -> set[int]:
    with open("/proc/devices", encoding="ascii") as file:
        lines = file.read().partition("Block devices:")[0].splitlines()
    return {int(line.split()[0]) for line in lines if line.strip()[:1].isdecimal()}


def _make_node(path: str, name: str, number: tuple[int, int]) -> None:
    state = os.lstat(path)
    os.mknod(f"{path}.new", stat.S_IFCHR, os.makedev(*number))
    os.chown(f"{path}.new", state.st_uid, _group("video" if "card" in name else "render", state.st_gid))
    os.chmod(f"{path}.new", stat.S_IMODE(state.st_mode))
    os.replace(f"{path}.new", path)


def _group(name: str, otherwise: int) -> int:
    """Return the number that this machine's users know a group by."""
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        return otherwise
