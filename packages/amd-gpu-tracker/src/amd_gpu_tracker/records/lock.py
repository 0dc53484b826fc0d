"""The tracker's one lock, in two forms on one file.

`KernelLock` is for programs that a container start waits for: a `flock`, for which the kernel lets processes wait in
turn until an alarm ends the wait. `LibraryLock` is for the library and the command line: it works in any thread and
needs no signal, at the price of looking again every few milliseconds. It uses filelock, whose import takes longer than
a container start may.
"""

from __future__ import annotations

# The C half of `signal`: the other half imports enum, which costs as much as a whole container start.
import _signal as signal  # type: ignore[import-not-found]  # typeshed does not know it
import fcntl
import posix

from amd_gpu_tracker.errors import LockTimeout, needs_root
from amdgpu_discovery.errors import FileError, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from amdgpu_discovery.errors import ToolkitError

# Many times what hundreds of container starts at once need, on a machine that is busy with other things.
TIMEOUT_SECONDS = 60.0
# How often `LibraryLock` looks.
POLL_SECONDS = 0.003
# What Ctrl-Z and a terminal's background send. Who is stopped with the lock in its hands keeps every container out, and
# `amd-ctk run --wait` takes it again and again.
STOPS = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


class KernelLock:
    """Holds the lock between `with` and the end of its block, or of the process; LockTimeout says who has it."""

    __slots__ = ("_descriptor", "_path", "_timeout")

    def __init__(self, path: str, timeout: float = TIMEOUT_SECONDS) -> None:
        self._path = path
        self._timeout = timeout

    def __enter__(self) -> None:
        try:
            self._descriptor = _open_locked(self._path, self._timeout)
        except OSError as error:
            raise cannot_lock(self._path, error) from error

    def __exit__(self, *_: object) -> None:
        posix.close(self._descriptor)


class LibraryLock:
    """Holds the lock inside the `with` block; LockTimeout says who has it. Ctrl-Z stops the thread behind the block."""

    __slots__ = ("_lock", "_mask", "_path", "_timeout")

    def __init__(self, path: str, timeout: float = TIMEOUT_SECONDS) -> None:
        self._path = path
        self._timeout = timeout
        self._lock: Any = None
        self._mask: Any = ()

    def __enter__(self) -> None:
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        try:
            self._acquire()
        except BaseException:
            self._let_stop()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            self._lock.release()
        finally:
            self._let_stop()

    def _acquire(self) -> None:
        from filelock import FileLock, Timeout

        self._lock = FileLock(self._path, timeout=self._timeout, mode=0o600)
        try:
            self._lock.acquire(poll_interval=POLL_SECONDS)
        except Timeout:
            raise lock_timeout(self._path, self._timeout) from None
        except OSError as error:
            raise cannot_lock(self._path, error) from error

    def _let_stop(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)


def _open_locked(path: str, timeout: float) -> int:
    while True:
        descriptor = posix.open(path, posix.O_RDWR | posix.O_CREAT | posix.O_CLOEXEC | posix.O_NOFOLLOW, 0o600)
        try:
            _lock(descriptor, path, timeout)
            # Some versions of filelock take the file away when they are done with it: then this lock guards nothing.
            if posix.fstat(descriptor).st_nlink:
                return descriptor
        except BaseException:
            posix.close(descriptor)
            raise
        posix.close(descriptor)


def _lock(descriptor: int, path: str, timeout: float) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        # Mostly the lock is free.
        wait(descriptor, path, timeout)


def wait(descriptor: int, path: str, timeout: float) -> None:
    """Wait for the lock in the kernel; LockTimeout."""

    def ring(*_: object) -> NoReturn:
        raise lock_timeout(path, timeout)

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, timeout)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    finally:
        # A timer outlives exec, and would end the runtime that this process becomes.
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def lock_timeout(path: str, timeout: float) -> LockTimeout:
    """Return the error for a lock that was not to be had, naming who holds it."""
    # Mostly the lock is free.
    from amdgpu_discovery.lock_holder import read_lock_holder

    pid = read_lock_holder(path)
    holder = f"process {pid}" if pid else "another process"
    return LockTimeout(
        f"the GPU Tracker's lock {path} was not free within {timeout:g} seconds, {holder} holds it",
        hint=f"see what it does with 'ps -fp {pid}'" if pid else "try again",
    )


def cannot_lock(path: str, error: OSError) -> ToolkitError:
    """Return the error for a lock file that cannot be opened."""
    if isinstance(error, PermissionError):
        return needs_root()
    return FileError(f"the GPU Tracker's lock {path} cannot be taken: {reason(error)}")
