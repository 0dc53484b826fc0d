"""Decide whether the container of a lease is alive.

The proofs, in this order: its init, if known; the process that makes it; the pid file and the state directory that the
runtime writes; for a container without its own pid namespace, the processes in its cgroup. Without a proof, it counts
as alive: keeping a lease too long costs a `reset`, dropping a living one gives a GPU away twice.
"""

from __future__ import annotations

import errno
import posix

from amd_gpu_tracker.book.lease import BY_API, Lease, ProcessId, boot_offset
from amdgpu_discovery.host import read_environment
from amdgpu_discovery.untrusted.plain_files import read_plain_file
from amdgpu_discovery.untrusted.plain_json import loads
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from amd_gpu_tracker.leases.processes import Processes

    # Takes a path and the largest size to read; returns the content and when it was written.
    Reader = Callable[[str, int], tuple[bytes, float]]

# Where runc and crun keep their state without --root. Without root, it is below XDG_RUNTIME_DIR.
DEFAULT_ROOTS = ("/run/runc", "/run/crun")
# The names of the file, of the process id and of its start time in ticks, for runc and for crun.
STATE_FILES = (
    ("state.json", "init_process_pid", "init_process_start"),
    ("status", "pid", "process-start-time"),
)
# Limits for a number, and for the state of a container with thousands of mounts.
LARGEST_PID_FILE = 64
LARGEST_STATE = 1024 * 1024
# The kernel dates files by a clock that lags by up to a tick, and start times are cut to ticks.
CLOCK_SLACK_SECONDS = 1.0


class Liveness(Value):
    """Whether a lease is alive, and the container's init if it was found only now."""

    is_alive: bool
    found_init: ProcessId | None = None
    # False if nothing proves life or death, so that the lease is kept.
    is_proved: bool = True


ALIVE = Liveness(is_alive=True)
DEAD = Liveness(is_alive=False)
UNKNOWN = Liveness(is_alive=True, is_proved=False)


def judge(lease: Lease, processes: Processes, *, creator_is_done: bool = False) -> Liveness:
    """Return whether the container of a lease is alive.

    With `creator_is_done`, the process that made the container does not count, because it reports the end itself.
    """
    if lease.boot_id != processes.boot_id or _has_expired(lease, processes.now()):
        return DEAD
    if lease.namespace != processes.namespace:
        return UNKNOWN
    maker = None if creator_is_done else lease.creator
    known = lease.init or maker
    if known is not None and processes.is_running(known):
        return ALIVE
    try:
        init = None if lease.init else find_init(lease, processes, read=_read_plainly, roots=_roots(lease.root))
    except OSError:
        return UNKNOWN
    if init is not None:
        return Liveness(is_alive=True, found_init=init)
    return _judge_others(lease, processes)


def _has_expired(lease: Lease, now: float) -> bool:
    """Return whether a lease without a process has ended."""
    if not lease.until:
        return False
    # Imported here, because most leases of a start last as long as their processes.
    from amd_gpu_tracker.book.kinds import kind_of

    kind = kind_of(lease)
    path = kind.needed_path
    return kind.is_over(now) or (path != "" and not _is_there(path))


def is_known_to_runtime(root: str, container_id: str) -> bool:
    """Return whether a runtime has state of a container, and so would refuse to make another one with this id.

    `root` is its --root, "" for the default.
    """
    return any(_is_there(f"{directory}/{container_id}") for directory in _roots(root))


def _is_there(path: str) -> bool:
    try:
        posix.lstat(path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        # A directory that this user may not search belongs to another user's runtime.
        return False
    except OSError:
        return True
    return True


def _judge_others(lease: Lease, processes: Processes) -> Liveness:
    """Return whether a container without an init is alive because of its other processes."""
    if not processes.sees_others():
        return UNKNOWN
    if not lease.cgroup:
        return DEAD
    from amd_gpu_tracker.leases.cgroup import has_processes

    return ALIVE if has_processes(lease.cgroup) else DEAD


def find_init(lease: Lease, processes: Processes, *, read: Reader, roots: Iterable[str]) -> ProcessId | None:
    """Return the init of a container from the runtime's files; OSError if these exist but cannot be read.

    `roots` are the directories in which the runtime may keep its state.
    """
    return _init_by_pid_file(lease, processes, read) or _init_by_state(lease, processes, read, roots)


def _init_by_pid_file(lease: Lease, processes: Processes, read: Reader) -> ProcessId | None:
    """Return the process in a pid file, unless it started after the file was written and so is another one."""
    if not lease.pid_file:
        return None
    content, written = _read_if_there(read, lease.pid_file, LARGEST_PID_FILE)
    try:
        pid = int(content)
    except ValueError:
        return None
    init = processes.find(pid) if pid > 0 else None
    if init is None:
        return None
    # The wall clock may have been set in between. Use the offset that keeps the lease.
    started = init.started + min(lease.boot_offset, boot_offset())
    return init if started <= written + CLOCK_SLACK_SECONDS else None


def _init_by_state(lease: Lease, processes: Processes, read: Reader, roots: Iterable[str]) -> ProcessId | None:
    """Return the init in the runtime's own state, if it is running."""
    for root in roots:
        for name, pid, start in STATE_FILES:
            path = f"{root}/{lease.container_id}/{name}"
            try:
                init = _read_state(_read_if_there(read, path, LARGEST_STATE)[0], pid, start)
            except PermissionError:
                if lease.root or not _has_no_state_of_root(lease):
                    raise
                continue
            if init is not None and processes.is_running(init):
                return init
    return None


def _has_no_state_of_root(lease: Lease) -> bool:
    """Return whether a directory that only root may search cannot have the state of this lease."""
    # A process that may read the pid file is the container's user. A reservation by name is no container.
    return bool(lease.pid_file) or lease.ways == (BY_API,)


def _roots(root: str) -> list[str]:
    """Return the directories in which a runtime with this --root, "" for none, may keep its state."""
    if root:
        return [root]
    users = read_environment().get("XDG_RUNTIME_DIR", "")
    return [*DEFAULT_ROOTS, f"{users}/runc", f"{users}/crun"] if users else [*DEFAULT_ROOTS]


def _read_state(content: bytes, pid: str, start: str) -> ProcessId | None:
    # Mostly it is gone: runc removes it before poststop hooks. For b"", `loads` would import all of `json`.
    if not content:
        return None
    try:
        state = loads(content)
        return ProcessId(pid=int(state[pid]), start=int(state[start]))
    except (KeyError, OverflowError, RecursionError, TypeError, ValueError):
        return None


def _read_plainly(path: str, largest: int) -> tuple[bytes, float]:
    return read_plain_file(path, largest=largest)


def _read_if_there(read: Reader, path: str, largest: int) -> tuple[bytes, float]:
    """Return a file's content and when it was written; b"" if there is no such file, OSError if that is unknown."""
    try:
        return read(path, largest)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
            return b"", 0.0
        raise
