"""A private mount namespace, and what is mounted in it."""

from __future__ import annotations

import ctypes
import os

from amdgpu_discovery.errors import ToolkitError, reason
from amdgpu_discovery.untrusted.mounts import read_mounts

# From linux/sched.h and linux/mount.h.
CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_NOSUID, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 0x2, 0x20, 0x1000, 0x4000, 0x40000
HINT = (
    "run it with sudo; Ubuntu allows it to users after 'sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0', "
    "Docker to root of a container with --privileged"
)


class NoNamespace(ToolkitError):
    """The kernel, or an engine around this process, allows no namespaces."""

    exit_code = 3


def enter_namespace() -> None:
    """Let this process mount anything, unseen by others; without root it gets a user namespace, too."""
    uid, gid = os.geteuid(), os.getegid()
    try:
        try:
            _call("unshare", CLONE_NEWNS)
        except PermissionError:
            _call("unshare", CLONE_NEWNS | CLONE_NEWUSER)
            _write_maps(uid, gid)
        _call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    except OSError as error:
        raise NoNamespace(f"no mount namespace can be made here: {reason(error)}", hint=HINT) from error


def bind(source: str, target: str) -> None:
    """Show at `target` what is at `source` and below it. Raises OSError."""
    # The kernel does not let users leave out the mounts below.
    _call("mount", os.fsencode(source), os.fsencode(target), None, MS_BIND | MS_REC, None)


def hide_mounts_below(path: str) -> None:
    """Show in a directory only its own files, and nothing that is mounted below it. Raises OSError."""
    _call("mount", os.fsencode(path), os.fsencode(path), None, MS_BIND, None)


def mount_terminals(target: str) -> None:
    """Mount a private directory of terminals. Raises OSError."""
    _call("mount", b"devpts", os.fsencode(target), b"devpts", MS_NOSUID, b"newinstance,ptmxmode=0666,mode=0620")


def allow_nodes(target: str) -> None:
    """Allow programs to open device nodes below a mount. Raises OSError."""
    _call("mount", b"none", os.fsencode(target), None, MS_BIND | MS_REMOUNT | MS_NOSUID, None)


def has_mounts_below(directory: str) -> bool:
    """Return whether anything is mounted in a directory, or over it. Raises OSError."""
    real = os.fsencode(os.path.realpath(directory))
    return any(mount.point == real or mount.point.startswith(real + b"/") for mount in read_mounts())


def _write_maps(uid: int, gid: int) -> None:
    """Keep the identity of this user: programs that check it behave as usual."""
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _call(name: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    converted = [ctypes.c_ulong(each) if isinstance(each, int) else each for each in arguments]
    if getattr(libc, name)(*converted) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
