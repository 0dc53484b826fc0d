"""What there is to do and to say where the tracker's lock is not free, or cannot be taken at all."""

from __future__ import annotations

# The C half of `signal`: the other half imports enum, which costs as much as a whole container start.
import _signal as signal  # type: ignore[import-not-found]  # typeshed does not know it
import fcntl

from amd_gpu_tracker.errors import LockTimeout, needs_root
from amdgpu_discovery.errors import FileError, reason
from amdgpu_discovery.lock_holder import read_lock_holder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from amdgpu_discovery.errors import ToolkitError


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
