"""Identify the process at the other end of a connection, by what the kernel reports and nothing the client sends."""

from __future__ import annotations

import os
import select
import socket
import struct

from amd_gpu_tracker.book.lease import ProcessId
from amd_gpu_tracker.leases.processes import NO_USERS, Processes
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host
from amdgpu_discovery.usage.people import person_behind
from amdgpu_discovery.value import Value

# From asm-generic/socket.h; Python has no names for them.
SO_PEERGROUPS = 59
SO_PEERPIDFD = 77
# The most that Python's getsockopt returns: 256 groups.
GROUPS_BYTES = 1024
CREDENTIALS = struct.Struct("iII")
SUBORDINATE_FILE = "/etc/subuid"


class PeerRefused(ToolkitError):
    """A process that gets nothing, because its user is uncertain."""

    exit_code = 3


class Peer(Value):
    """A process that sends a request.

    Attributes:
        uid: Its user.
        gids: Its groups.
        process: Its process id and start time.
        login: The user who logged in, if the kernel knows (`audit`); else None.
        may_lack_groups: Whether it may have dropped groups. In its own user namespace this needs no privilege.
        is_hidden: Whether the service may not see its namespaces.
    """

    uid: int
    gids: tuple[int, ...]
    process: ProcessId
    login: int | None = None
    may_lack_groups: bool = False
    is_hidden: bool = False

    def person(self, behind: int | None) -> int | None:
        """Return the person as `person_behind` does; `behind` is the caller of sudo, as root's client reports."""
        return person_behind(self.uid, login=self.login, sudo=behind)


def find_peer(connection: socket.socket, processes: Processes) -> tuple[Peer, int]:
    """Return the process at the other end of a connection, and its pidfd. PeerRefused.

    The process may end at any time: check the pidfd before giving it anything.
    """
    pid, uid, gid = CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
    if pid <= 0:
        problem = "the requesting process is not visible from here"
        raise PeerRefused(problem, hint="run the command on the host, not in a container")
    pidfd = _open_pidfd(connection, pid)
    try:
        return _found(processes, pid, uid, (gid, *_read_groups(connection, processes, pid)), pidfd), pidfd
    except BaseException:
        os.close(pidfd)
        raise


def find_uid(connection: socket.socket) -> int:
    """Return the uid of the process that connected. This takes one system call, `find_peer` a dozen."""
    return int(CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))[1])


def has_ended(pidfd: int) -> bool:
    """Return whether the process of a pidfd has ended."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def has_gone() -> PeerRefused:
    """Return the error for a request whose process has ended, though another still has its connection."""
    return PeerRefused("the requesting process has ended")


def no_account(uid: int) -> PeerRefused:
    """Return the error for a uid that belongs to no account."""
    return PeerRefused(f"user {uid} has no account", hint="run the command outside the container")


class Subordinates:
    """The uids without an account: nobody's, and the subordinate uids of users' containers.

    The file is read again when it has changed.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._stamp: tuple[int, int] | None = None
        self._ranges: list[list[str]] = []

    def has(self, uid: int) -> bool:
        """Return whether a uid is one of these, and not that of this process."""
        if uid in (*NO_USERS, os.geteuid()):
            return uid != os.geteuid()
        try:
            found = self._host.stat(SUBORDINATE_FILE)
            stamp = (found.st_mtime_ns, found.st_size) if found else None
            if stamp != self._stamp:
                lines = self._host.read(SUBORDINATE_FILE).decode("utf-8", "replace").splitlines() if found else []
                self._ranges = [line.split(":")[1:] for line in lines if line.count(":") == 2]
                self._stamp = stamp
        except OSError:
            return False
        return any(_is_in_range(uid, *words) for words in self._ranges)


def _found(processes: Processes, pid: int, uid: int, gids: tuple[int, ...], pidfd: int) -> Peer:
    process = processes.find(pid)
    uids = processes.uids(pid)
    # A process that has entered a user namespace never leaves it.
    namespace = processes.link(pid, "ns/user")
    # Checked last: what was read is about this process only if it is still alive.
    if process is None or has_ended(pidfd):
        raise has_gone()
    if set(uids) != {uid}:
        # The process is to become the caller's job, but runs partly as another user, as a setuid program does.
        raise PeerRefused(f"the process {pid} runs as several users", hint="run the command without a setuid program")
    return Peer(
        uid=uid,
        gids=gids,
        process=process,
        login=processes.login(pid),
        may_lack_groups=namespace != processes.link("self", "ns/user"),
        is_hidden=not namespace,
    )


def _open_pidfd(connection: socket.socket, pid: int) -> int:
    try:
        # Since Linux 6.5: the pidfd of the very process that connected.
        return int.from_bytes(connection.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD, 4), "little")
    except OSError:
        pass
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        raise has_gone() from error


def _read_groups(connection: socket.socket, processes: Processes, pid: int) -> tuple[int, ...]:
    try:
        content = connection.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, GROUPS_BYTES)
    except OSError:
        # The groups do not fit. Those of the process are the same, unless it changed them since it connected.
        return tuple(processes.gids(pid))
    return struct.unpack(f"{len(content) // 4}I", content)


def _is_in_range(uid: int, first: str, count: str) -> bool:
    if not (first.isascii() and count.isascii() and first.isdecimal() and count.isdecimal()):
        return False
    return int(first) <= uid < int(first) + int(count)
