"""The tracker's only lock: a `flock` on one file, with three ways to wait for it.

A container start blocks in the kernel until an alarm ends the wait (`KernelLock`). A command does the same, and also
delays Ctrl-Z until the lock is free again (`CommandLock`). The library may run in any thread of a program that uses
alarms itself, so it sets none and tries again every few milliseconds (`LibraryLock`).
"""

from __future__ import annotations

# The C half of `signal`: the other half imports enum, which costs as much as a whole container start.
import _signal as signal  # type: ignore[import-not-found]  # typeshed does not know it
import fcntl
import posix
import time

from amdgpu_discovery.errors import FileError, ToolkitError, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import NoReturn

    from amd_gpu_tracker.errors import LockTimeout

    # Takes the path of the lock file, and holds the tracker's lock.
    Lock = Callable[[str], AbstractContextManager[None]]

# Many times what hundreds of simultaneous container starts need on a busy machine.
LOCK_SECONDS = 60.0
FLAGS = posix.O_RDWR | posix.O_CREAT | posix.O_CLOEXEC | posix.O_NOFOLLOW
# How often `LibraryLock` tries.
LOCK_POLL_SECONDS = 0.003
# The signals of Ctrl-Z and of a terminal's background. A process stopped with the lock would keep every container out,
# and `amd-ctk run --wait` takes the lock again and again.
STOPS = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


class KernelLock:
    """Holds the lock until the end of the `with` block or of the process; LockTimeout names the process that has it."""

    def __init__(self, path: str, timeout: float = LOCK_SECONDS) -> None:
        self._path = path
        self._timeout = timeout

    def __enter__(self) -> None:
        try:
            self._descriptor = self._open_locked()
        except OSError as error:
            raise cannot_lock(self._path, error) from error

    def __exit__(self, *_: object) -> None:
        posix.close(self._descriptor)

    def _open_locked(self) -> int:
        while True:
            descriptor = posix.open(self._path, FLAGS, 0o600)
            try:
                self._lock(descriptor)
                # Earlier versions may remove the file when they release the lock; then this lock protects nothing.
                if posix.fstat(descriptor).st_nlink:
                    return descriptor
            except BaseException:
                posix.close(descriptor)
                raise
            posix.close(descriptor)

    def _lock(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # The lock is mostly free, so this is rare.
            self._wait(descriptor)

    def _wait(self, descriptor: int) -> None:
        def ring(*_: object) -> NoReturn:
            raise lock_timeout(self._path, self._timeout)

        before = signal.signal(signal.SIGALRM, ring)
        try:
            signal.setitimer(signal.ITIMER_REAL, self._timeout)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        finally:
            # A timer outlives exec, and would kill the runtime that this process becomes.
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


class CommandLock(KernelLock):
    """Holds the lock as `KernelLock` does; Ctrl-Z stops the command only after the block."""

    def __enter__(self) -> None:
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        try:
            super().__enter__()
        except BaseException:
            self._let_stop()
            raise

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._let_stop()

    def _let_stop(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)


class LibraryLock(CommandLock):
    """Holds the lock as `CommandLock` does, in any thread and without a signal."""

    def _wait(self, descriptor: int) -> None:
        deadline = time.monotonic() + self._timeout
        while time.monotonic() < deadline:
            time.sleep(LOCK_POLL_SECONDS)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            return
        raise lock_timeout(self._path, self._timeout)


def hold_until_exit(path: str) -> None:
    """Hold a lock of its own, together with others, until this process ends; OSError. The caller holds the tracker's.

    Children that close its descriptor do not hold it.
    """
    fcntl.flock(posix.open(path, FLAGS, 0o600), fcntl.LOCK_SH)


def is_held(path: str) -> bool:
    """Return whether a process holds the lock of `hold_until_exit`. The caller holds the tracker's lock."""
    try:
        descriptor = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        posix.close(descriptor)
    return False


def lock_timeout(path: str, timeout: float) -> LockTimeout:
    """Return the error for a lock that another process kept, with that process's id."""
    # Imported here, because the lock is mostly free.
    from amd_gpu_tracker.errors import LockTimeout
    from amdgpu_discovery.usage.lock_holder import read_lock_holder

    pid = read_lock_holder(path)
    holder = f"process {pid}" if pid else "another process"
    return LockTimeout(
        f"the GPU Tracker's lock {path} was not free within {timeout:g} seconds: {holder} holds it",
        hint=f"see what it does with 'ps -fp {pid}'" if pid else "try again",
    )


def cannot_lock(path: str, error: OSError) -> ToolkitError:
    """Return the error for a lock file that cannot be opened."""
    if isinstance(error, PermissionError):
        from amd_gpu_tracker.errors import needs_root

        return needs_root()
    return FileError(f"the GPU Tracker's lock {path} cannot be taken: {reason(error)}")
