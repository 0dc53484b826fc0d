"""Become like a container's first process, as far as opening files goes; for a child that then looks and ends.

What the caller has open or could load must not come within reach of the container: the child closes and forgets it.
A seccomp filter and a label of SELinux or AppArmor cannot be taken over.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Callable

from amd_ctk.doctor.inside.process import ContainerProcess, require_running

# linux/prctl.h, linux/sched.h, linux/capability.h
PR_SET_DUMPABLE = 4
PR_SET_KEEPCAPS = 8
CLONE_NEWUSER = 0x10000000
CAPABILITY_VERSION = 0x20080522


def become(process: ContainerProcess, libc: ctypes.CDLL, *, own_capabilities: int) -> None:
    """Take the cgroup, root directory, user namespace, ids and capabilities of a process; OSError.

    That is refused where the process has ended, or where no device cgroup is known. `own_capabilities` is the mask of
    what the caller is permitted.
    """
    # A container with the host's pid namespace must not trace a process that holds more than it does.
    _call(libc.prctl, PR_SET_DUMPABLE, 0, 0, 0, 0)
    namespace = os.open(f"/proc/{process.pid}/ns/user", os.O_RDONLY) if process.uid_inside is not None else -1
    root = os.open(f"/proc/{process.pid}/root", os.O_RDONLY | os.O_DIRECTORY)
    # Of both descriptors: if it runs now, they are not another process's.
    require_running(process.identity)
    _join(process.cgroups)
    # Whatever is imported from here on would be the container's own file.
    sys.meta_path.clear()
    os.fchdir(root)
    os.chroot(".")
    os.close(root)
    os.setgroups(process.groups)
    os.setresgid(process.gid, process.gid, process.gid)
    uid = process.uid
    if process.uid_inside is not None:
        # It brings every capability there and none outside.
        _call(libc.setns, namespace, CLONE_NEWUSER)
        os.close(namespace)
        uid, own_capabilities = process.uid_inside, ~0
    _call(libc.prctl, PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setresuid(uid, uid, uid)
    _set_capabilities(libc, process.capabilities & own_capabilities)


def _join(cgroups: tuple[str, ...]) -> None:
    if not cgroups:
        raise OSError("its device cgroup was not found")
    for directory in cgroups:
        descriptor = os.open(f"{directory}/cgroup.procs", os.O_WRONLY)
        try:
            os.write(descriptor, b"0")
        finally:
            os.close(descriptor)


def _set_capabilities(libc: ctypes.CDLL, mask: int) -> None:
    header = struct.pack("Ii", CAPABILITY_VERSION, 0)
    low, high = mask & 0xFFFFFFFF, mask >> 32 & 0xFFFFFFFF
    _call(libc.capset, header, struct.pack("6I", low, low, 0, high, high, 0))


def _call(function: Callable[..., int], *arguments: object) -> None:
    if function(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
