"""Scan leases: which are alive, which are over, which cannot be read."""

from __future__ import annotations

from amd_gpu_tracker.errors import StateError
from amd_gpu_tracker.life.liveness import Liveness, judge
from amd_gpu_tracker.records.lease import BY_API, Lease
from amdgpu_discovery.errors import FileError
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from amd_gpu_tracker.life.processes import Processes
    from amd_gpu_tracker.records.state import State

    # Takes a lease, the path of its file, and whether it is alive; gives the lease that counts, None where it is over.
    Count = Callable[[str, Lease, Liveness], Lease | None]


class LeaseScan(Value):
    """What leases there are: the living ones, oldest first, and what is wrong with those that cannot be read."""

    living: tuple[Lease, ...]
    unreadable: tuple[StateError, ...]

    def count_users(self, gpu_key: str) -> int:
        """Return how many use a GPU; a reservation and the container that was given it count as one.

        Leases that cannot be read count where they say that they are of this GPU.
        """
        return len(count_once([lease for lease in self.living if gpu_key in lease.gpus])) + self.is_named(gpu_key)

    def is_named(self, gpu_key: str) -> bool:
        """Return whether a lease that cannot be read says that it is of this GPU."""
        return any(gpu_key in (error.gpus or ()) for error in self.unreadable)

    def may_be_used(self, gpu_key: str) -> bool:
        """Return whether a lease that cannot be read is of this GPU, or may be."""
        return any(error.gpus is None or gpu_key in error.gpus for error in self.unreadable)


def count_once(users: Sequence[Lease]) -> list[Lease]:
    """Return the leases of a GPU without reservations that were handed on to one of these containers.

    They are all of one user. Names are given again, so that the digest of the token is compared.
    """
    handed_on = {lease.reservation_digest for lease in users}
    return [lease for lease in users if not (lease.token_digest and lease.token_digest in handed_on)]


def scan_leases(state: State, processes: Processes, paths: Iterable[str]) -> LeaseScan:
    """Return what the leases in these files say, and change nothing."""
    return _scan(state, processes, paths, lambda _, lease, verdict: lease if verdict.is_alive else None)


def foresee_leases(state: State, processes: Processes, paths: Iterable[str]) -> LeaseScan:
    """Return what `prune_leases` would return now, with what is kept for a restart, and change nothing."""
    from amd_gpu_tracker.life.restarts import find_kept

    def foresee(_: str, lease: Lease, verdict: Liveness) -> Lease | None:
        return lease if verdict.is_alive else find_kept(state, lease, processes)

    return _scan(state, processes, paths, foresee)


def prune_leases(state: State, processes: Processes, paths: Iterable[str], how: str = "found") -> LeaseScan:
    """Return what the leases in these files say; drop what is over, and write down the init of those that have one now.

    The caller holds the lock. `how` it is known that something is over goes into the history.
    """

    def write_down(path: str, lease: Lease, verdict: Liveness) -> Lease | None:
        if not verdict.is_alive:
            # Few claims find one.
            from amd_gpu_tracker.life.restarts import end_lease

            return end_lease(state, path, lease, processes, how)
        return _with_init(state, lease, verdict)

    return _scan(state, processes, paths, write_down)


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
    """Write down the init of a container that has one now, and return the lease that counts from now on."""
    if verdict.found_init is not None:
        try:
            state.write_lease(lease.replace(init=verdict.found_init))
        except FileError:
            # A full disk must not refuse another container: the next scan finds the init again.
            return lease
    return lease


def find_holders(leases: Sequence[Lease]) -> list[Lease]:
    """Return the lease of each job and reservation; of a job whose command has ended, those of its containers.

    Containers go on then: an engine's client is no container's parent.
    """
    jobs = find_jobs(leases)
    left = [each for each in leases if jobs.get(each.key) == each.reservation_digest != ""]
    return [*(each for each in leases if BY_API in each.ways), *left]


def find_jobs(leases: Sequence[Lease]) -> dict[tuple[str, str], str]:
    """Return the id of the job or reservation of each container that was given one, by the key of its lease.

    It is the job whose token the container shows; when that has ended, the reservation in which it ran, or what stands
    for the job: its token's digest.
    """
    jobs = [each for each in leases if BY_API in each.ways]
    by_digest = {each.token_digest: each.container_id for each in jobs}
    ends = {each.container_id: each.until for each in jobs if each.until}
    found = {}
    for each in leases:
        if BY_API not in each.ways and each.reservation_digest:
            is_inside = each.limit and ends.get(each.reservation) == each.limit
            left_in = each.reservation if is_inside else each.reservation_digest
            found[each.key] = by_digest.get(each.reservation_digest, left_in)
    return found
