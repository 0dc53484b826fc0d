"""The leases of users, as far as root trusts them: a process of the user must prove each.

Reading them is limited by `book/user_files.py`. An invalid lease causes a line with the user and the file. It is a
fault about the GPUs that it names, or about every GPU if they are unknown.

Only the kernel can say who owns a process. A rootless container runs with subordinate ids of its user, in a user
namespace that the user made. The kernel knows who made it (ioctl_ns(2)), while /etc/subuid lacks the ids that a
directory service provides.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys

from amd_gpu_tracker.book.lease import Lease, ProcessId, find_named_gpus, parse_lease
from amd_gpu_tracker.book.user_files import MUTE, UserFile, UserFiles, find_users, read_ignored_users
from amd_gpu_tracker.errors import StateError
from amd_gpu_tracker.leases.cgroup import last_name
from amd_gpu_tracker.leases.liveness import find_init
from amdgpu_discovery.errors import reason
from amdgpu_discovery.files import directory_of, read_file
from amdgpu_discovery.untrusted.plain_json import dumps, loads
from amdgpu_discovery.untrusted.plain_text import one_line
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from amd_gpu_tracker.book.state import State
    from amd_gpu_tracker.leases.processes import Processes
    from amdgpu_discovery.gpu import GpuLocation

# Per user; one more line counts the other invalid leases.
MOST_REPORTED_LEASES = 10
# Many times what a host has (MI300X: 64); the time to process a lease grows with it.
MOST_USER_GPUS = 256
# runc's own limit.
LONGEST_CONTAINER_ID = 1024
# ioctl_ns(2)
NS_GET_PARENT = 0xB702
NS_GET_OWNER_UID = 0xB704
UID_BYTES = 4
# The deepest nesting of user namespaces (kernel/user_namespace.c).
DEEPEST_USER_NAMESPACE = 33


class UserLease(Value):
    """A lease that a process of its user proves."""

    uid: int
    lease: Lease


class UserLeaseFault(Value):
    """A problem with the leases of a user."""

    uid: int
    message: str
    # `GpuLocation.key` of the GPUs that it may be about, None for all of them.
    gpus: tuple[str, ...] | None = None

    def as_error(self) -> StateError:
        """Return the error for a change that must not be made with this fault."""
        advice = f"ask the user to remove it, or run 'sudo amd-ctk gpu-tracker ignore {self.uid}'"
        return StateError(self.message, hint=advice)


class UserLeases(Value):
    """The leases of all users: those that are proved, and the problems with others."""

    proved: tuple[UserLease, ...] = ()
    faults: tuple[UserLeaseFault, ...] = ()
    # Users whose leases are not read.
    ignored: tuple[int, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """Return the lines about them for `status`, at most a few for each user."""
        lines = [line for uid in dict.fromkeys(fault.uid for fault in self.faults) for line in self._lines(uid)]
        return (*lines, *(f"the leases of user {uid} are ignored" for uid in self.ignored))

    def _lines(self, uid: int) -> list[str]:
        lines = [fault.message for fault in self.faults if fault.uid == uid]
        more = len(lines) - MOST_REPORTED_LEASES
        return (
            lines if more <= 0 else [*lines[:MOST_REPORTED_LEASES], f"{more} more leases of user {uid} are like these"]
        )

    def without_used(self, gpus: Sequence[GpuLocation]) -> list[GpuLocation]:
        """Return the GPUs that no user's container has; StateError if a fault is about one of them."""
        keys = {gpu.key for gpu in gpus}
        for fault in self.faults:
            if keys and (fault.gpus is None or keys.intersection(fault.gpus)):
                raise fault.as_error()
        used = {key for user in self.proved for key in user.lease.gpus}
        return [gpu for gpu in gpus if gpu.key not in used]


def read_user_leases(state: State, processes: Processes) -> UserLeases:
    """Read the leases of every user but the caller, as far as the caller may. Takes no lock and changes nothing."""
    ignored = read_ignored_users(state.host)
    others = [user for user in find_users(state.host) if user.directory != directory_of(state.run_directory)]
    found = [item for user in others if user.uid not in ignored for item in _read_leases_of(user, processes)]
    return UserLeases(
        proved=tuple(item for item in found if isinstance(item, UserLease)),
        faults=tuple(item for item in found if isinstance(item, UserLeaseFault)),
        ignored=tuple(user.uid for user in others if user.uid in ignored and user.has_leases()),
    )


def _read_leases_of(user: UserFiles, processes: Processes) -> list[UserLease | UserLeaseFault]:
    proof = _Proof(user, processes)
    files: list[UserFile] = []
    faults: list[UserLeaseFault] = []
    try:
        files.extend(user.read_leases())
    except OSError as error:
        what = f"the leases of user {user.uid} in {user.leases_directory} cannot be read: {reason(error)}"
        faults.append(_fault(user, what))
    # The fault of all first, because only the first lines are shown.
    return [*faults, *proof.judge(files)]


class _Proof:
    """Checks the leases of one user."""

    def __init__(self, user: UserFiles, processes: Processes) -> None:
        self._user = user
        # Files that the leases name have a limit of their own.
        self._named = UserFiles(user.uid)
        self._processes = processes
        self._own = UserProcesses(user.uid, processes)

    def judge(self, files: Iterable[UserFile]) -> list[UserLease | UserLeaseFault]:
        """Return the proved leases, and what is wrong with others; nothing for those that have ended."""
        read = {file.path: self._read(file) for file in files}
        leases = {path: lease for path, lease in read.items() if isinstance(lease, Lease)}
        inits = self._find_inits({path: lease for path, lease in leases.items() if self._needs_init(lease)})
        judged = (self._judge(path, each, inits) if isinstance(each, Lease) else each for path, each in read.items())
        return [item for item in judged if item is not None]

    def _read(self, file: UserFile) -> Lease | UserLeaseFault:
        if file.error:
            return _fault(self._user, f"{self._name(file.path)} cannot be read: {reason(file.error)}")
        try:
            return _parse(file.content)
        except ValueError as error:
            what = f"{self._name(file.path)} cannot be understood: {error}"
            return _fault(self._user, what, find_named_gpus(file.content))

    def _judge(
        self, path: str, lease: Lease, inits: Mapping[str, ProcessId | OSError | None]
    ) -> UserLease | UserLeaseFault | None:
        try:
            is_alive = self._is_alive(lease, inits.get(path))
        except OSError as error:
            return _fault(self._user, f"{self._name(path)} cannot be judged: {reason(error)}", lease.gpus)
        return UserLease(uid=self._user.uid, lease=lease) if is_alive else None

    def _name(self, path: str) -> str:
        return f"the lease {path} of user {self._user.uid}"

    def _needs_init(self, lease: Lease) -> bool:
        """Return whether files that a lease names may say that it lives."""
        here = (self._processes.boot_id, self._processes.namespace)
        return (lease.boot_id, lease.namespace) == here and not lease.init and not self._is_running(lease.creator)

    def _is_alive(self, lease: Lease, init: ProcessId | OSError | None) -> bool:
        """Return whether a process of this user proves a lease; OSError if this cannot be decided."""
        if lease.boot_id != self._processes.boot_id:
            return False
        if lease.namespace != self._processes.namespace:
            if self._own.is_in_namespace(lease.namespace):
                raise OSError(errno.EINVAL, "its process ids are those of another pid namespace")
            return False
        if self._is_running(lease.init or lease.creator):
            return True
        if isinstance(init, OSError):
            raise init
        if self._is_running(init):
            return True
        # systemd puts it somewhere below the user's own cgroup.
        cgroup = last_name(lease.cgroup)
        return bool(cgroup) and self._own.is_in_cgroup(cgroup)

    def _is_running(self, process: ProcessId | None) -> bool:
        return process is not None and self._processes.is_running(process) and self._own.has(process.pid)

    def _find_inits(self, leases: Mapping[str, Lease]) -> dict[str, ProcessId | OSError | None]:
        """Return the inits of leases by path, or why they are unknown. A child reads the files that say it."""

        def read(path: str) -> str:
            try:
                init = self._find_init(leases[path])
            except OSError as error:
                return dumps([error.errno, str(error.strerror)]).decode()
            except ValueError:  # A path with a null byte.
                init = None
            return dumps(init and init.as_dict()).decode()

        answers = self._named.ask(leases, read)
        found = {path: loads(answers.get(path, "0").encode()) for path in leases}
        return {path: _as_init(answer) for path, answer in found.items()}

    def _find_init(self, lease: Lease) -> ProcessId | None:
        defaults = [f"{self._user.directory}/{runtime}" for runtime in ("runc", "crun")]
        return find_init(lease, self._processes, read=self._named.read, roots=[lease.root] if lease.root else defaults)


def _as_init(answer: Any) -> ProcessId | OSError | None:
    if isinstance(answer, dict):
        return ProcessId(pid=answer["pid"], start=answer["start"])
    if isinstance(answer, list):
        return OSError(*answer)
    return OSError(errno.ETIMEDOUT, MUTE) if answer == 0 else None


def _fault(user: UserFiles, message: str, gpus: tuple[str, ...] | None = None) -> UserLeaseFault:
    return UserLeaseFault(uid=user.uid, message=one_line(message), gpus=gpus)


def _parse(content: bytes) -> Lease:
    """Return a lease; ValueError if it is not one, or larger than any that this toolkit writes."""
    lease = parse_lease(content)
    if len(lease.gpus) > MOST_USER_GPUS:
        raise ValueError(f"it names more than {MOST_USER_GPUS} GPUs")
    if len(lease.container_id) > LONGEST_CONTAINER_ID:
        raise ValueError(f"its container id is longer than {LONGEST_CONTAINER_ID} characters")
    return lease


class UserProcesses:
    """The processes of one user, which are listed once."""

    def __init__(self, uid: int, processes: Processes) -> None:
        self._uid = uid
        self._processes = processes
        self._pids: list[int] | None = None
        self._namespaces: frozenset[str] | None = None
        self._cgroups: frozenset[str] | None = None

    def has(self, pid: int) -> bool:
        """Return whether a process belongs to this user."""
        is_started = self._processes.uid(pid) == self._uid
        return is_started or self._uid in _makers_of_user_namespaces(f"{self._processes.directory}/{pid}")

    def is_in_namespace(self, namespace: str) -> bool:
        """Return whether a process of this user is in a pid namespace, named as in /proc/PID/ns/pid."""
        if self._namespaces is None:
            self._namespaces = frozenset(self._processes.link(pid, "ns/pid") for pid in self._all())
        return namespace in self._namespaces

    def is_in_cgroup(self, name: str) -> bool:
        """Return whether a process of this user is in a cgroup of this name, wherever the engine put it."""
        if self._cgroups is None:
            paths = (f"{self._processes.directory}/{pid}/cgroup" for pid in self._all())
            self._cgroups = frozenset(name for path in paths for name in _read_cgroups(path))
        return name in self._cgroups

    def _all(self) -> list[int]:
        if self._pids is None:
            self._pids = [pid for pid in self._processes.pids() if self.has(pid)]
        return self._pids


def _makers_of_user_namespaces(process: str) -> list[int]:
    """Return the users who made the user namespace of a process, and those around it up to the caller's."""
    makers: list[int] = []
    opened: list[int] = []
    try:
        own = os.stat("/proc/self/ns/user")
        opened.append(os.open(f"{process}/ns/user", os.O_RDONLY | os.O_CLOEXEC))
        while len(opened) <= DEEPEST_USER_NAMESPACE and not os.path.samestat(os.fstat(opened[-1]), own):
            maker = fcntl.ioctl(opened[-1], NS_GET_OWNER_UID, bytes(UID_BYTES))
            makers.append(int.from_bytes(maker, sys.byteorder))
            opened.append(fcntl.ioctl(opened[-1], NS_GET_PARENT, 0))
    except OSError:  # The process has ended, or its namespace is not inside the caller's.
        pass
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return makers


def _read_cgroups(path: str) -> list[str]:
    # For example 0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-4f1c.scope
    try:
        content = read_file(path).decode("utf-8", "surrogateescape")
    except OSError:
        return []
    names = [name for line in content.split("\n") for name in line.split(":", 2)[-1].split("/")]
    # systemd's unit of a container that the lease names by its id alone.
    units = [name.removesuffix(".scope").partition("-")[2] for name in names if name.endswith(".scope")]
    return [*names, *units]
