"""Mounts a simulated host over this machine, in a mount namespace, beside the machine's own files and nodes."""

from __future__ import annotations

import grp
import os
import re
import shutil
import stat
from collections.abc import Mapping
from contextlib import suppress

from amdgpu_discovery.driver.drm import DRM_MAJOR
from amdgpu_discovery.host import Host
from amdgpu_discovery.recording.profile import Profile, ProfileError
from amdgpu_simulator.hosts.placement import place_host
from amdgpu_simulator.runs.namespace import allow_nodes, bind, hide_mounts_below, mount_terminals

# Directories in which the simulated host covers the machine.
OVERLAID = ("/sys", "/dev", "/etc", "/run", "/var/lib", "/var/log")
# Not visible beside it: GPUs of the machine, files of the toolkit, and connections to the machine's systemd.
HIDDEN = (
    *("/sys/bus/pci", "/sys/class/drm", "/sys/class/kfd", "/sys/devices/virtual/kfd", "/sys/module/amdgpu"),
    *("/dev/dri", "/dev/kfd"),
    *("/etc/amd-container-toolkit", "/run/amd-container-toolkit", "/var/lib/amd-container-toolkit"),
    *("/etc/cdi", "/run/cdi", "/run/systemd/system", "/run/systemd/private"),
    # The state of AMD's toolkit 1.x, which the tracker would take over.
    "/var/log/gpu-tracker.json",
)
# Engine settings that commands change.
COPIED = ("/etc/docker", "/etc/containers", "/etc/containerd", "/etc/crio")
# Otherwise Podman would ask the machine's systemd, which is hidden, for a control group.
PODMAN = "/etc/containers/containers.conf.d/amd-ctk-simulate.conf"
PODMAN_SETTINGS = '[engine]\ncgroup_manager = "cgroupfs"\n'
PTMX = os.makedev(5, 2)
# Directories with something hidden in them, whose other content of the machine stays visible.
SHARED = ("/run/systemd", "/var/log")
KFD = "kfd"
MINOR = re.compile("[0-9]{1,6}")
# From linux/kdev_t.h.
LARGEST_MAJOR = 4095


def lay_over(host: Host, numbers: Mapping[str, tuple[int, int]]) -> list[str] | None:
    """Mount a host over this machine, for this process and its children.

    `numbers` are those of the host's device nodes. Return which of them are plain files, because the machine has
    devices with these numbers; None if this process may make no device nodes. Raises OSError if something cannot be
    mounted. Needs a mount namespace of its own.
    """
    for path in SHARED:
        os.makedirs(host.path(path), exist_ok=True)
    for path in COPIED:
        # If this user may not read it, the user's programs cannot read it either.
        with suppress(OSError, shutil.Error):
            shutil.copytree(path, host.path(path), symlinks=True)
    os.makedirs(os.path.dirname(host.path(PODMAN)), exist_ok=True)
    with open(host.path(PODMAN), "w", encoding="utf-8") as file:
        file.write(PODMAN_SETTINGS)
    has_nodes = _make_terminals(host)
    plain = make_nodes(host, numbers) if has_nodes else None
    for path in OVERLAID:
        _show_machine(path, host.path(path))
    # The host itself may be in /dev/shm or /run, which the mounts cover.
    own = [os.open(host.path(path), os.O_PATH | os.O_CLOEXEC) for path in OVERLAID]
    for path, descriptor in zip(OVERLAID, own, strict=True):
        bind(f"/proc/self/fd/{descriptor}", path)
    # Otherwise a program that removes the simulation's directory would remove files of the machine. If the mounts cover
    # the path, it may not exist any more, and then there is nothing to hide.
    with suppress(FileNotFoundError):
        hide_mounts_below(host.root)
    if has_nodes:
        allow_nodes("/dev")
    return plain


def _make_terminals(host: Host) -> bool:
    """Let programs make terminals; return whether this process may make device nodes.

    The kernel makes no terminal for a node that was mounted (path_pts of fs/namei.c).
    """
    path = host.path("/dev/ptmx")
    try:
        os.mknod(path, stat.S_IFCHR, PTMX)
    except PermissionError:
        os.mkdir(host.path("/dev/pts"))
        mount_terminals(host.path("/dev/pts"))
        os.symlink("pts/ptmx", path)
        return False
    os.chmod(path, stat.S_IMODE(os.stat("/dev/ptmx").st_mode))
    return True


def _show_machine(path: str, own: str) -> None:
    """Show in the directory `own` what the machine has at `path`, except for names that `own` already has."""
    for name in sorted(os.listdir(path)):
        theirs, ours = f"{path}/{name}", f"{own}/{name}"
        if theirs in HIDDEN:
            continue
        if os.path.islink(theirs):
            if not os.path.lexists(ours):
                os.symlink(os.readlink(theirs), ours)
        elif not os.path.lexists(ours):
            _show_one(theirs, ours)
        elif _is_merged(theirs, ours):
            _show_machine(theirs, ours)


def _is_merged(theirs: str, ours: str) -> bool:
    """Return whether to merge two directories. The directory of a device or of settings comes from one side only."""
    if theirs in COPIED or os.path.ismount(ours) or os.path.exists(f"{ours}/vendor"):
        return False
    return os.path.isdir(theirs) and os.path.isdir(ours) and not os.path.islink(ours)


def _show_one(theirs: str, ours: str) -> None:
    if os.path.isdir(theirs):
        os.mkdir(ours)
    else:
        os.close(os.open(ours, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC))
    # Without it, programs find an empty directory or file, as for files that they may not read.
    with suppress(OSError):
        bind(theirs, ours)


def numbers_of_nodes(profile: Profile) -> dict[str, tuple[int, int]]:
    """Return major and minor of every device node of a host, by its name below /dev. Raises ProfileError."""
    found: dict[str, tuple[int, int]] = {}
    if profile.driver and profile.driver.kfd_major is not None:
        if not 0 < profile.driver.kfd_major <= LARGEST_MAJOR:
            message = f"KFD cannot have the major number {profile.driver.kfd_major}"
            raise ProfileError(message, hint=f"choose one up to {LARGEST_MAJOR}")
        found[KFD] = (profile.driver.kfd_major, 0)
    for device in place_host(profile).devices:
        for kind, minor in (("card", device.card), ("renderD", device.render)):
            if minor is not None and MINOR.fullmatch(str(minor)):
                found[f"dri/{kind}{minor}"] = (DRM_MAJOR, int(minor))
    return found


def make_nodes(host: Host, numbers: Mapping[str, tuple[int, int]]) -> list[str]:
    """Replace plain files in /dev by device nodes; return the names that stay files. Raises OSError.

    A node with the number of one of the machine's devices would be that device.
    """
    left = [name for name, number in numbers.items() if _is_of_machine(*number)]
    for name, number in numbers.items():
        path = host.path(f"/dev/{name}")
        if name not in left and stat.S_ISREG(os.lstat(path).st_mode):
            _make_node(path, name, number)
    return left


def _is_of_machine(major: int, minor: int) -> bool:
    """Return whether the machine has this DRM device, or any driver with KFD's major number."""
    if major == DRM_MAJOR:
        return os.path.lexists(f"/sys/dev/char/{major}:{minor}")
    with open("/proc/devices", encoding="ascii") as file:
        character_devices = file.read().partition("Block devices:")[0].splitlines()
    return any(line.split()[:1] == [f"{major}"] for line in character_devices)


def _make_node(path: str, name: str, number: tuple[int, int]) -> None:
    state = os.lstat(path)
    os.mknod(f"{path}.new", stat.S_IFCHR, os.makedev(*number))
    os.chown(f"{path}.new", state.st_uid, _group("video" if "card" in name else "render", state.st_gid))
    os.chmod(f"{path}.new", stat.S_IMODE(state.st_mode))
    os.replace(f"{path}.new", path)


def _group(name: str, otherwise: int) -> int:
    """Return the number of a group on this machine, `otherwise` if there is none."""
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        return otherwise
