"""`gpu-tracker serve`: the broker as a process of its own, and its socket."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import MutableMapping
from contextlib import suppress
from functools import partial

from amd_gpu_sharing.broker.handler import Handler
from amd_gpu_sharing.broker.jobs.ending import GRACE_SECONDS
from amd_gpu_sharing.broker.jobs.journal import write_line
from amd_gpu_sharing.broker.requests.client import BACKLOG_PAUSE_SECONDS, connect
from amd_gpu_sharing.broker.requests.people import FIFO, FindTerms, Terms
from amd_gpu_sharing.broker.requests.protocol import SOCKET
from amd_gpu_sharing.broker.server import IDLE_SECONDS, Server
from amd_gpu_tracker.book.lock import KernelLock
from amd_gpu_tracker.book.state import State, open_state
from amd_gpu_tracker.claims.claim import Book
from amd_gpu_tracker.errors import needs_root
from amd_gpu_tracker.leases.processes import Processes
from amd_gpu_tracker.pods.find import KubeletPods
from amdgpu_discovery.errors import FileError, ToolkitError, reason
from amdgpu_discovery.host import Host

FIRST_DESCRIPTOR = 3
# As in amd-gpu-tracker.socket.
BACKLOG = 256
# Masks of a socket's mode. All users may connect to the service from the first moment; it decides who gets GPUs.
EVERYBODY, ONLY_OWNER = 0o111, 0o177
# Descriptors of this process, as in the systemd unit. Each waiting job needs two.
DESCRIPTORS = 65_536
# How long the stand-in for the service stays when no job waits.
STAND_IN_SECONDS = 1.0
# Container starts hold the lock for milliseconds. A process that holds it longer must not hold up all clients.
SERVICE_LOCK_SECONDS = 5.0
BLIND = (
    "this service may not look at processes of users, because it lacks CAP_SYS_PTRACE: jobs are not warned, what they"
    " leave running is not found and not ended, and rules for groups may refuse their members"
)


class NoSocket(ToolkitError):
    """A broker that got no socket from systemd and no path to make one at."""

    exit_code = 2


def take_listener(path: str, environment: MutableMapping[str, str]) -> socket.socket:
    """Return a listening socket: the one that systemd passed, or a new one at `path`."""
    pid, count = environment.pop("LISTEN_PID", ""), environment.pop("LISTEN_FDS", "")
    if pid != str(os.getpid()) or count != "1":
        if not path:
            raise NoSocket("no socket was passed on", hint="name a path, as in --listen PATH")
        return listen(path, EVERYBODY)
    os.set_inheritable(FIRST_DESCRIPTOR, False)
    passed = socket.socket(fileno=FIRST_DESCRIPTOR)
    if passed.family != socket.AF_UNIX or passed.type != socket.SOCK_STREAM:
        raise NoSocket("the socket that was passed on is not a Unix stream socket")
    passed.setblocking(False)
    return passed


def listen(path: str, mask: int) -> socket.socket:
    """Make a socket with umask `mask`, and replace one that an ended broker left. FileError."""
    directory, name = os.path.split(os.path.abspath(path))
    try:
        os.makedirs(directory, mode=0o755, exist_ok=True)
        _remove_stale(path)
        # A socket path is limited to 107 bytes, and the path on a simulated host may be longer.
        opened = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return _listen_at(f"/proc/self/fd/{opened}/{name}", mask)
        finally:
            os.close(opened)
    except OSError as error:
        raise FileError(f"the socket {path} cannot be made: {reason(error)}") from error


def _listen_at(path: str, mask: int) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    mask = os.umask(mask)
    try:
        made.bind(path)
        made.listen(BACKLOG)
    except OSError:
        made.close()
        raise
    finally:
        os.umask(mask)
    return made


def _remove_stale(path: str) -> None:
    """Remove the socket of a broker that has ended; FileError for anything else at this path."""
    problem, hint = "a file that is not a socket is there", "remove it, or name another path"
    try:
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            problem, hint = "another service listens there", "stop that one first"
            connect(path, BACKLOG_PAUSE_SECONDS).close()
    except FileNotFoundError:
        return
    except ConnectionRefusedError:
        os.unlink(path)
        return
    except BlockingIOError:
        # A broker listens, but its backlog is full.
        pass
    raise FileError(f"the socket {path} cannot be made: {problem}", hint=hint)


def serve(
    host: Host,
    find_terms: FindTerms,
    *,
    listen: str = "",
    grace: float = GRACE_SECONDS,
    processes: Processes | None = None,
) -> None:
    """Serve the clients of a host until none is left; with a path to `listen` at, until a signal.

    A job whose time is over gets `grace` seconds between TERM and KILL. `processes` are those of this machine, perhaps
    with another clock.
    """
    if os.geteuid():
        raise needs_root()
    _raise_descriptors()
    state = State(host)
    processes = processes or Processes()
    listener = take_listener(listen, os.environ)
    if not processes.may_look_at_users():
        write_line("limited", BLIND)
    handler = Handler(_book(state, processes), find_terms, write_line, grace=grace)
    Server(listener, state, processes, handler, idle_seconds=None if listen else IDLE_SECONDS).run()


def serve_waiters(root: str, proc: str, descriptor: int) -> None:
    """Stand in for the service on the host with this root: serve one user's waiting jobs as long as there are any.

    The jobs connect to the listening socket `descriptor`. Once the service runs, it takes over root's jobs. `proc` is
    the directory where the kernel lists processes.
    """
    _raise_descriptors()
    state = open_state(Host(root), os.environ)
    processes = Processes(proc)
    terms = Terms(order=FIFO, accepts_rules=True)
    handler = Handler(_book(state, processes), lambda _: terms, lambda *_, **__: None)
    listener = socket.socket(fileno=descriptor)
    listener.setblocking(False)
    served = "" if os.geteuid() else state.host.path(SOCKET)
    Server(listener, state, processes, handler, idle_seconds=STAND_IN_SECONDS, stands_in_for=served).run()


def _book(state: State, processes: Processes) -> Book:
    lock = partial(KernelLock, timeout=SERVICE_LOCK_SECONDS)
    return Book(state, processes, lock, KubeletPods(state.host).by_gpu)


def _raise_descriptors() -> None:
    """Raise this process's limit of descriptors: logins mostly get 1,024."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for most in (DESCRIPTORS, hard):
        if 0 <= soft < most:
            # Root without CAP_SYS_RESOURCE, as in a container, cannot exceed the hard limit.
            with suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard if hard < 0 else max(most, hard)))
                return
