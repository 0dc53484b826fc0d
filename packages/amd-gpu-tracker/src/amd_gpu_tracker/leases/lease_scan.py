"""Scan leases: which are alive, which have ended, and which cannot be read."""

from __future__ import annotations

from amd_gpu_tracker.book.lease import Lease, held_by_name
from amd_gpu_tracker.errors import StateError
from amd_gpu_tracker.leases.liveness import Liveness, judge
from amdgpu_discovery.errors import FileError
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from amd_gpu_tracker.book.state import State
    from amd_gpu_tracker.leases.processes import Processes

    # Takes the path of a lease, the lease and its liveness; returns the lease that counts, None if it has ended.
    Count = Callable[[str, Lease, Liveness], Lease | None]


class LeaseScan(Value):
    """The result of a scan: the living leases, oldest first, and the errors of those that cannot be read."""

    living: tuple[Lease, ...]
    unreadable: tuple[StateError, ...]

    def count_users(self, gpu_key: str) -> int:
        """Return how many use a GPU; a reservation and the container that was given it count as one, as does a pod.

        Unreadable leases count if they name this GPU.
        """
        users = count_once([lease for lease in self.living if gpu_key in lease.gpus])
        return len({lease.pod or lease.key for lease in users}) + self.is_named(gpu_key)

    def is_named(self, gpu_key: str) -> bool:
        """Return whether an unreadable lease names this GPU."""
        return any(gpu_key in (error.gpus or ()) for error in self.unreadable)

    def may_be_named(self, gpu_key: str) -> bool:
        """Return whether an unreadable lease is, or may be, about this GPU."""
        return any(error.gpus is None or gpu_key in error.gpus for error in self.unreadable)


def count_once(users: Sequence[Lease]) -> list[Lease]:
    """Return the leases of a GPU, without reservations that were handed on to one of these containers.

    They all belong to one user. Names are reused, so this compares the digests of tokens.
    """
    handed_on = {lease.reservation_digest for lease in users}
    return [lease for lease in users if not (lease.token_digest and lease.token_digest in handed_on)]


def scan_leases(state: State, processes: Processes, paths: Iterable[str]) -> LeaseScan:
    """Return the content of the leases in these files, each with its init if that is found now; change nothing."""

    def keep(_: str, lease: Lease, verdict: Liveness) -> Lease | None:
        found = lease.replace(init=verdict.found_init) if verdict.found_init else lease
        return found if verdict.is_alive else None

    return _scan(state, processes, paths, keep)


def preview_leases(state: State, processes: Processes, paths: Iterable[str]) -> LeaseScan:
    """Return what `prune_leases` would return now, with leases kept for a restart, and change nothing."""
    from amd_gpu_tracker.leases.restarts import find_restart_lease

    def preview(_: str, lease: Lease, verdict: Liveness) -> Lease | None:
        return lease if verdict.is_alive else find_restart_lease(state, lease, processes)

    return _scan(state, processes, paths, preview)


def prune_leases(state: State, processes: Processes, paths: Iterable[str], how: str = "found") -> LeaseScan:
    """Return the content of the leases in these files; drop those that have ended, and record newly found inits.

    The caller holds the lock. The history records `how` an end became known.
    """

    def drop_or_update(path: str, lease: Lease, verdict: Liveness) -> Lease | None:
        if not verdict.is_alive:
            # Imported here, because few claims find one.
            from amd_gpu_tracker.leases.restarts import end_lease

            return end_lease(state, path, lease, processes, how)
        return _with_init(state, lease, verdict)

    return _scan(state, processes, paths, drop_or_update)


def _scan(state: State, processes: Processes, paths: Iterable[str], count: Count) -> LeaseScan:
    living: list[Lease] = []
    unreadable: list[StateError] = []
    for path in paths:
        try:
            lease = state.read_lease(path)
        except StateError as error:
            unreadable.append(error)
            continue
        if lease is not None and (counted := count(path, lease, judge(lease, processes))):
            living.append(counted)
    living.sort(key=lambda lease: (lease.since, lease.container_id))
    return LeaseScan(living=tuple(living), unreadable=tuple(unreadable))


def _with_init(state: State, lease: Lease, verdict: Liveness) -> Lease:
    """Record the init of a container that was found now, and return the lease that counts from now on."""
    if verdict.found_init is not None:
        try:
            state.write_lease(lease.replace(init=verdict.found_init))
        except FileError:
            # A full disk must not refuse another container. The next scan finds the init again.
            return lease
    return lease


def find_holders(leases: Sequence[Lease]) -> list[Lease]:
    """Return the lease of each job and reservation; for a job whose command has ended, those of its containers.

    The containers go on, because an engine's client is not their parent.
    """
    jobs = find_jobs(leases)
    left = [each for each in leases if jobs.get(each.key) == each.reservation_digest != ""]
    return [*held_by_name(leases), *left]


def find_jobs(leases: Sequence[Lease]) -> dict[tuple[str, str], str]:
    """Return the id of the job or reservation of each container that was given one, by the key of its lease.

    It is the job whose token the container has. If that has ended, it is the reservation in which the job ran, or else
    the digest of the token, which represents the job.
    """
    jobs = {each.container_id: each for each in held_by_name(leases)}
    by_digest = {each.token_digest: each.container_id for each in jobs.values()}
    found = {}
    for each in leases:
        if each.reservation_digest and not each.is_by_name:
            reservation = jobs.get(each.reservation)
            is_inside = reservation is not None and each.is_in(reservation)
            left_in = each.reservation if is_inside else each.reservation_digest
            found[each.key] = by_digest.get(each.reservation_digest, left_in)
    return found
