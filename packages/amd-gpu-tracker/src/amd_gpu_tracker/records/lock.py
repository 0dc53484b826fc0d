"""The tracker's one lock, for programs that a container start waits for.

It is a `flock` on the file that filelock locks for the library (`library_lock`); importing filelock takes longer than
a container start may. Waiting is done in the kernel, first come first served, and ended by an alarm.
"""

from __future__ import annotations

import fcntl
import posix

# Many times what hundreds of container starts at once need, on a machine that is busy with other things.
TIMEOUT_SECONDS = 60.0


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
            from amd_gpu_tracker.records.lock_waiting import cannot_lock

            raise cannot_lock(self._path, error) from error

    def __exit__(self, *_: object) -> None:
        posix.close(self._descriptor)


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
        from amd_gpu_tracker.records.lock_waiting import wait

        wait(descriptor, path, timeout)
