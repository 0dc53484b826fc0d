"""The first process of a container, as /proc describes it: the facts that decide which devices it may open."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable

from amd_ctk.rocm_nodes import ProcessUser
from amd_gpu_tracker import Processes, ProcessId
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.files import read_file
from amdgpu_discovery.untrusted.mounts import Mount, read_mounts

UNLIMITED = "unlimited"
DEVICES = "devices"


class CannotEnter(ToolkitError):
    """A container that cannot be entered without more rights than its first process has."""


class ContainerProcess(ProcessUser):
    """What a process may do.

    `cgroups` are the directories through which to join its device cgroup. `uid_inside` is its user id in its own user
    namespace, None if it has none.
    """

    identity: ProcessId
    has_seccomp: bool = False
    # Bytes that the process may lock in memory, None without a limit.
    locked_memory: int | None = None
    cgroups: tuple[str, ...] = ()
    uid_inside: int | None = None

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self.identity.pid


def require_running(identity: ProcessId) -> None:
    """Raise ProcessLookupError if a process has ended. Its id and /proc/PID may then belong to another process."""
    if not Processes().is_running(identity):
        raise ProcessLookupError(errno.ESRCH, "its first process has ended")


def start_time(identity: ProcessId) -> float:
    """Return when a process started, in seconds since 1970; OSError."""
    lines = _read("/proc/stat").splitlines()
    boot = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
    return boot + identity.started


def read_process(identity: ProcessId) -> ContainerProcess:
    """Return what /proc says about a process; OSError if it has ended or may not be read, CannotEnter."""
    pid = identity.pid
    status = parse_status(_read(f"/proc/{pid}/status"))
    uid = int(status["Uid"].split()[1])
    mounts = find_cgroup_mounts(read_mounts())
    return ContainerProcess(
        identity=identity,
        uid=uid,
        gid=int(status["Gid"].split()[1]),
        groups=tuple(map(int, status["Groups"].split())),
        capabilities=int(status["CapEff"], 16),
        has_seccomp=status.get("Seccomp", "0") != "0",
        locked_memory=parse_locked_memory(_read(f"/proc/{pid}/limits")),
        cgroups=tuple(find_cgroups(_read(f"/proc/{pid}/cgroup"), mounts)),
        uid_inside=_uid_inside(pid, uid),
    )


def parse_status(text: str) -> dict[str, str]:
    """Return the fields of /proc/PID/status."""
    # Only newlines end lines here: a process may have other line ends in its name, and in names of its cgroups.
    pairs = (line.partition(":") for line in text.split("\n"))
    return {name: value.strip() for name, _, value in pairs}


def parse_locked_memory(text: str) -> int | None:
    """Return the soft limit of locked memory in /proc/PID/limits, None for no limit."""
    line = next((line for line in text.splitlines() if line.startswith("Max locked memory")), "")
    soft = next(iter(line.removeprefix("Max locked memory").split()), UNLIMITED)
    return int(soft) if soft.isdecimal() else None


def find_cgroup_mounts(mounts: Iterable[Mount]) -> dict[str, tuple[str, str]]:
    """Return the mounts of the device cgroup of version 1, and of version 2: {kind: (path, root)}."""
    found: dict[str, tuple[str, str]] = {}
    for mount in mounts:
        if mount.kind == b"cgroup2":
            found.setdefault("cgroup2", (os.fsdecode(mount.point), os.fsdecode(mount.root)))
        elif mount.kind == b"cgroup" and DEVICES.encode() in mount.options:
            found.setdefault(DEVICES, (os.fsdecode(mount.point), os.fsdecode(mount.root)))
    return found


def find_cgroups(text: str, mounts: dict[str, tuple[str, str]]) -> list[str]:
    """Return the directories of a process's cgroups that control devices, from /proc/PID/cgroup."""
    entries = [line.split(":", 2) for line in text.split("\n") if line.count(":") >= 2]
    # Version 1 has a controller for devices. If it is mounted, no program of version 2 is used.
    if DEVICES in mounts:
        paths = [path for _, controllers, path in entries if DEVICES in controllers.split(",")]
        return [_directory(*mounts[DEVICES], path) for path in paths]
    paths = [path for number, controllers, path in entries if (number, controllers) == ("0", "")]
    return [_directory(*mounts["cgroup2"], path) for path in paths if "cgroup2" in mounts]


def translate_id(number: int, id_map: str) -> int | None:
    """Return an id inside a user namespace, from the lines "inside outside count" of its map; None if not mapped."""
    for line in id_map.splitlines():
        inside, outside, count = map(int, line.split())
        if outside <= number < outside + count:
            return inside + number - outside
    return None


def _uid_inside(pid: int, uid: int) -> int | None:
    if os.stat(f"/proc/{pid}/ns/user").st_ino == os.stat("/proc/self/ns/user").st_ino:
        return None
    inside = translate_id(uid, _read(f"/proc/{pid}/uid_map"))
    if inside is None:
        # None would mean that the capabilities are those of the caller's namespace.
        raise CannotEnter("its user namespace does not map its user")
    return inside


def _directory(mount: str, root: str, path: str) -> str:
    below = path.removeprefix(root) if root != "/" and path.startswith(root) else path
    return f"{mount}/{below.lstrip('/')}".rstrip("/")


def _read(path: str) -> str:
    return read_file(path).decode("utf-8", "replace")
