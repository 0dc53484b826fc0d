"""Give back the GPUs of a container that has ended."""

from __future__ import annotations

from amd_gpu_tracker.book.history import HOOK, PROGRAM
from amd_gpu_tracker.book.state import LONGEST_ID_IN_NAME, State
from amd_gpu_tracker.errors import StateError
from amd_gpu_tracker.leases.liveness import judge
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from amd_gpu_tracker.book.lease import Lease, ProcessId
    from amd_gpu_tracker.claims.claim import Book
    from amd_gpu_tracker.leases.processes import Processes


class Released(Value):
    """The leases of one container id after a release: those that were dropped, and those whose container is alive."""

    dropped: tuple[Lease, ...] = ()
    living: tuple[Lease, ...] = ()


def release(
    book: Book,
    container_id: str,
    *,
    creators: Collection[ProcessId] = (),
    how: str = PROGRAM,
) -> Released:
    """Drop the leases of a container id whose containers have ended, for every runtime root.

    `creators` are the processes that report the end: if one of them made the container, its own life proves nothing.
    The history records `how` the end is known.
    """
    state, processes = book.state, book.processes
    if not _paths(state, container_id):
        return Released()
    with book.locked():
        dropped, living = [], []
        for path in _paths(state, container_id):
            lease = _read(state, path)
            # File names of very long ids are cut off.
            if lease is None or lease.container_id != container_id:
                continue
            is_alive = judge(lease, processes, creator_is_done=lease.creator in creators).is_alive
            # The end of a kept container may already have been seen before its hook runs.
            if is_alive and (how == HOOK or not lease.will_restart):
                living.append(lease)
            elif not _keep_for_restart(state, path, lease, processes, how):
                dropped.append(lease)
    return Released(dropped=tuple(dropped), living=tuple(living))


def _keep_for_restart(state: State, path: str, lease: Lease, processes: Processes, how: str) -> bool:
    """Remove a lease; return True if its end hook keeps it, because its engine will restart the container."""
    if how != HOOK:
        state.remove_lease(path, how)
        return False
    from amd_gpu_tracker.leases.restarts import end_lease

    return end_lease(state, path, lease, processes, how) is not None


def _paths(state: State, container_id: str) -> list[str]:
    """Return the leases of a container id, and those of long ids that have the same file name as far as it goes."""
    name = _id_in_name(state.lease_path(("", container_id)))[:LONGEST_ID_IN_NAME]
    return [path for path in state.lease_paths() if _id_in_name(path)[:LONGEST_ID_IN_NAME] == name]


def _id_in_name(path: str) -> str:
    return path.rpartition("/")[2].partition("@")[0]


def _read(state: State, path: str) -> Lease | None:
    """Return a lease. Remove one that cannot be read, because its own container reports its end."""
    try:
        return state.read_lease(path)
    except StateError:
        # The file name of a longer id is cut off, so the lease may be another container's.
        if len(_id_in_name(path)) < LONGEST_ID_IN_NAME:
            state.remove_lease(path)
        return None
