"""The processes of a user, as proof that the user's containers live. Only the kernel is asked whose they are.

A rootless container runs with subordinate ids of its user, in a user namespace that the user made. The kernel knows who
made it (ioctl_ns(2)); /etc/subuid knows the ids only where no directory service does.
"""

from __future__ import annotations

import fcntl
import os
import sys

from amdgpu_discovery.files import read_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_gpu_tracker.life.processes import Processes

# ioctl_ns(2)
NS_GET_PARENT = 0xB702
NS_GET_OWNER_UID = 0xB704
UID_BYTES = 4
# How deep user namespaces are nested at most (kernel/user_namespace.c).
DEEPEST = 33


class UserProcesses:
    """The processes of one user, which are looked for once."""

    def __init__(self, uid: int, processes: Processes) -> None:
        self._uid = uid
        self._processes = processes
        self._pids: list[int] | None = None
        self._namespaces: frozenset[str] | None = None
        self._cgroups: frozenset[str] | None = None

    def has(self, pid: int) -> bool:
        """Return whether a process is this user's."""
        is_started = self._processes.uid(pid) == self._uid
        return is_started or self._uid in _makers_of_user_namespaces(f"{self._processes.directory}/{pid}")

    def is_in_namespace(self, namespace: str) -> bool:
        """Return whether any process of this user is in a pid namespace, named as /proc/PID/ns/pid names it."""
        if self._namespaces is None:
            self._namespaces = frozenset(self._processes.link(pid, "ns/pid") for pid in self._all())
        return namespace in self._namespaces

    def is_in_cgroup(self, name: str) -> bool:
        """Return whether any process of this user is in a cgroup of this name, wherever the engine has put it."""
        if self._cgroups is None:
            paths = (f"{self._processes.directory}/{pid}/cgroup" for pid in self._all())
            self._cgroups = frozenset(name for path in paths for name in _read_cgroups(path))
        return name in self._cgroups

    def _all(self) -> list[int]:
        if self._pids is None:
            self._pids = [pid for pid in self._processes.pids() if self.has(pid)]
        return self._pids


def _makers_of_user_namespaces(process: str) -> list[int]:
    """Return who made the user namespace of a process, and those around it up to the caller's."""
    makers: list[int] = []
    opened: list[int] = []
    try:
        own = os.stat("/proc/self/ns/user")
        opened.append(os.open(f"{process}/ns/user", os.O_RDONLY | os.O_CLOEXEC))
        while len(opened) <= DEEPEST and not os.path.samestat(os.fstat(opened[-1]), own):
            maker = fcntl.ioctl(opened[-1], NS_GET_OWNER_UID, bytes(UID_BYTES))
            makers.append(int.from_bytes(maker, sys.byteorder))
            opened.append(fcntl.ioctl(opened[-1], NS_GET_PARENT, 0))
    except OSError:  # the process is gone, or its namespace is not inside the caller's
        pass
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return makers


def _read_cgroups(path: str) -> list[str]:
    # 0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-4f1c.scope
    try:
        content = read_file(path).decode("utf-8", "surrogateescape")
    except OSError:
        return []
    names = [name for line in content.splitlines() for name in line.split(":", 2)[-1].split("/")]
    # systemd's unit of a container that the lease names by its id alone
    units = [name.removesuffix(".scope").partition("-")[2] for name in names if name.endswith(".scope")]
    return [*names, *units]
