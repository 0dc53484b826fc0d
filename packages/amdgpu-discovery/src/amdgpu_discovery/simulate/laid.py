"""Lay a simulated host over this machine, in a mount namespace: its own files, and beside them the machine's."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from contextlib import suppress

from amdgpu_discovery.host import Host
from amdgpu_discovery.simulate.namespace import allow_nodes, bind, hide_mounts_below, mount_terminals
from amdgpu_discovery.simulate.nodes import make_nodes

# What the simulated host has there lies over the machine's.
LAID = ("/sys", "/dev", "/etc", "/run", "/var/lib", "/var/log")
# GPUs of the machine, what the toolkit keeps, and what speaks with the machine's systemd: not to be seen beside it.
HIDDEN = (
    *("/sys/bus/pci", "/sys/class/drm", "/sys/class/kfd", "/sys/devices/virtual/kfd", "/sys/module/amdgpu"),
    *("/dev/dri", "/dev/kfd"),
    *("/etc/amd-container-toolkit", "/run/amd-container-toolkit", "/var/lib/amd-container-toolkit"),
    *("/etc/cdi", "/run/cdi", "/run/systemd/system", "/run/systemd/private"),
    # The state of AMD's toolkit 1.x, which the tracker would take over.
    "/var/log/gpu-tracker.json",
)
# Settings of engines, which commands change.
COPIED = ("/etc/docker", "/etc/containers", "/etc/containerd", "/etc/crio")
# Podman would ask the machine's systemd for a control group, which is hidden.
PODMAN = "/etc/containers/containers.conf.d/amd-ctk-simulate.conf"
PODMAN_SETTINGS = '[engine]\ncgroup_manager = "cgroupfs"\n'
PTMX = os.makedev(5, 2)
# A directory on the way to something hidden, in which the rest of the machine's is shown.
SHARED = ("/run/systemd", "/var/log")


def lay_over(host: Host, numbers: Mapping[str, tuple[int, int]]) -> list[str] | None:
    """Lay a host over this machine, for this process and its children.

    `numbers` are those of the host's device nodes. Return which of them are plain files, because the machine has
    devices of these numbers; None where this process may make no device nodes. OSError where something cannot be
    mounted. Needs a namespace of its own.
    """
    for path in SHARED:
        os.makedirs(host.path(path), exist_ok=True)
    for path in COPIED:
        # What this user may not read, the user's programs cannot read either.
        with suppress(OSError, shutil.Error):
            shutil.copytree(path, host.path(path), symlinks=True)
    os.makedirs(os.path.dirname(host.path(PODMAN)), exist_ok=True)
    with open(host.path(PODMAN), "w", encoding="utf-8") as file:
        file.write(PODMAN_SETTINGS)
    has_nodes = _make_terminals(host)
    plain = make_nodes(host, numbers) if has_nodes else None
    for path in LAID:
        _show_machine(path, host.path(path))
    # The host may lie in /dev/shm or /run itself, which then show something else.
    own = [os.open(host.path(path), os.O_PATH | os.O_CLOEXEC) for path in LAID]
    for path, descriptor in zip(LAID, own, strict=True):
        bind(f"/proc/self/fd/{descriptor}", path)
    # Else a program that removes the simulation's directory would remove files of the machine. With the machine's
    # directories over it the path may lead nowhere, and then nothing is to be hidden.
    with suppress(FileNotFoundError):
        hide_mounts_below(host.root)
    if has_nodes:
        allow_nodes("/dev")
    return plain


def _make_terminals(host: Host) -> bool:
    """Let programs make terminals; return whether this process may make device nodes.

    The kernel makes no terminal behind a node that was mounted (path_pts of fs/namei.c).
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
    """Show in the directory `own` what the machine has at `path`, but for what `own` has already."""
    for name in sorted(os.listdir(path)):
        theirs, ours = f"{path}/{name}", f"{own}/{name}"
        if theirs in HIDDEN:
            continue
        if os.path.islink(theirs):
            if not os.path.lexists(ours):
                os.symlink(os.readlink(theirs), ours)
        elif not os.path.lexists(ours):
            _show_one(theirs, ours)
        elif _is_way(theirs, ours):
            _show_machine(theirs, ours)


def _is_way(theirs: str, ours: str) -> bool:
    """Return whether both have this directory on the way to something; a device or settings are one or the other."""
    if theirs in COPIED or os.path.ismount(ours) or os.path.exists(f"{ours}/vendor"):
        return False
    return os.path.isdir(theirs) and os.path.isdir(ours) and not os.path.islink(ours)


def _show_one(theirs: str, ours: str) -> None:
    if os.path.isdir(theirs):
        os.mkdir(ours)
    else:
        os.close(os.open(ours, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC))
    # Without it programs find an empty directory or file, as what they may not read.
    with suppress(OSError):
        bind(theirs, ours)
