"""The tracker's one lock, for the library and the command line: the same file as `lock.KernelLock`, through filelock.

It works in any thread and leaves signals alone, at the price of looking again every few milliseconds.
"""

from __future__ import annotations

from contextlib import contextmanager

from amd_gpu_tracker.records.lock import TIMEOUT_SECONDS, cannot_lock, lock_timeout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

POLL_SECONDS = 0.003


@contextmanager
def hold_library_lock(path: str, timeout: float = TIMEOUT_SECONDS) -> Iterator[None]:
    """Hold the lock inside the `with` block; LockTimeout says who has it."""
    from filelock import FileLock, Timeout

    lock = FileLock(path, timeout=timeout, mode=0o600)
    try:
        lock.acquire(poll_interval=POLL_SECONDS)
    except Timeout:
        raise lock_timeout(path, timeout) from None
    except OSError as error:
        raise cannot_lock(path, error) from error
    try:
        yield
    finally:
        lock.release()
