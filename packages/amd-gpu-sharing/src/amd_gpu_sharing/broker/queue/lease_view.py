"""The broker's view of the leases: who holds GPUs, how many each person has, and which processes to follow."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from math import inf

from amd_gpu_sharing.broker.jobs.ending import GRACE_SECONDS
from amd_gpu_sharing.broker.queue.order import Outlook
from amd_gpu_sharing.broker.requests.demand import Demand, as_bits, numbers_in
from amd_gpu_tracker.book.drains import DIRTY, DRAINED, SICK, STATES, Drain, by_key, read_drains
from amd_gpu_tracker.book.kinds import kind_of
from amd_gpu_tracker.book.lease import Lease, ProcessId, held_by_name, on_this_clock
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.claims.choice import read_other_leases
from amd_gpu_tracker.claims.decision import find_users
from amd_gpu_tracker.errors import StateError
from amd_gpu_tracker.leases.lease_scan import scan_leases
from amd_gpu_tracker.leases.liveness import judge
from amd_gpu_tracker.leases.processes import Processes
from amd_gpu_tracker.leases.user_leases import UserLease
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.value import Value


class Holding(Value):
    """The GPUs of a job or reservation, by number, and since when, in seconds since 1970 (UTC)."""

    job: str
    person: int
    numbers: tuple[int, ...]
    since: float


class LeaseView(Outlook):
    """The leases at one moment. GPUs that are `free` are neither reserved nor drained, sick or dirty.

    Attributes:
        leases: The leases that are alive.
        drained: The GPUs that an administrator has drained, as bits.
        sick: The GPUs that are sick and not drained, as bits.
        dirty: The GPUs on which an ended job has left something, and that are neither drained nor sick, as bits.
        in_pods: The GPUs that kubelet has given to pods whose containers have no reservation, as bits.
        shared: The GPUs that are not exclusive, as bits.
        host_total: How many GPUs the host has.
        user_leases: The leases of users' rootless containers, whose end causes no event.
        holders: The processes whose end may free GPUs.
        numbers: The GPUs of the host, by key.
    """

    leases: tuple[Lease, ...] = ()
    drained: int = 0
    sick: int = 0
    dirty: int = 0
    in_pods: int = 0
    shared: int = 0
    host_total: int = 0
    user_leases: tuple[UserLease, ...] = ()
    holders: frozenset[ProcessId] = frozenset()
    numbers: dict[str, int] = {}  # noqa: RUF012 - values are immutable, and it is never changed

    def held(self, demand: Demand) -> int:
        """Return how many GPUs count against the request's limit: those of its person, or of its group together."""
        if demand.permission.is_together:
            return _count((lease.group, lease) for lease in self.leases).get(demand.permission.number or 0, 0)
        return self.holding.get(demand.person, 0)

    def is_over(self, demand: Demand, before: int = 0) -> bool:
        """Return whether a request exceeds its limit, if jobs with the same limit get `before` GPUs first."""
        return bool(demand.permission.gpus) and self.held(demand) + before + demand.count > demand.permission.gpus

    @property
    def holding(self) -> dict[int, int]:
        """Return how many GPUs each person has."""
        return _count((lease.person, lease) for lease in self.leases)

    @property
    def reservations(self) -> list[Lease]:
        """Return the leases of jobs, programs and reservations, but not of containers."""
        return held_by_name(self.leases)

    def gpus_by_job(self) -> dict[str, tuple[int, ...]]:
        """Return the GPUs of each job and reservation that the service gave out, by id."""
        given = (each for each in self.reservations if each.person is not None)
        return {each.container_id: tuple(sorted(_numbers_of(each, self.numbers))) for each in given}

    def users_of(self, among: int) -> list[tuple[Lease, list[int]]]:
        """Return the leases with some of these GPUs (bits), each with their numbers."""
        return find_users(self.leases, {key: number for key, number in self.numbers.items() if among >> number & 1})

    def jobs_on(self, among: int) -> list[Holding]:
        """Return the jobs and reservations that have some of these GPUs (bits), oldest first.

        Containers count as part of their job, and jobs in a reservation as part of the reservation.
        """
        within = {each.container_id: each.outer_job for each in self.reservations}
        leases: dict[str, list[Lease]] = {}
        for each in self.leases:
            if job := within.get(each.job, each.job):
                leases.setdefault(job, []).append(each)
        found = (_holding(job, theirs, self.numbers, among) for job, theirs in leases.items())
        return sorted((each for each in found if each.numbers), key=lambda each: (each.since, each.job))

    def gpus_of(self, *leases: Lease) -> int:
        """Return the GPUs that only these leases have, as bits."""
        shared = {key for other in self.leases if other not in leases for key in other.gpus}
        keys = {key for lease in leases for key in lease.gpus} - shared
        return sum(1 << self.numbers[key] for key in keys if key in self.numbers)

    def latest_ends(self, now: float) -> dict[int, float]:
        """Return when each GPU is free at the latest, by number, in seconds since boot.

        GPUs that may never be free are missing. Spare jobs end for waiting jobs.
        """
        free = dict.fromkeys(numbers_in(self.free), now)
        withheld = numbers_in(self.drained | self.sick | self.dirty)
        ends: dict[int, float] = {}
        for lease in self.leases:
            end = kind_of(lease).latest_end(now, GRACE_SECONDS)
            for number in _numbers_of(lease, self.numbers):
                ends[number] = max(end, ends.get(number, 0.0))
        return free | {number: end for number, end in ends.items() if end < inf and number not in withheld}


def _numbers_of(lease: Lease, numbers: Mapping[str, int]) -> list[int]:
    """Return the `numbers` of the GPUs of a lease that the host still has."""
    return [numbers[key] for key in lease.gpus if key in numbers]


def _holding(job: str, leases: Sequence[Lease], numbers: Mapping[str, int], among: int) -> Holding:
    held = {number for each in leases for number in _numbers_of(each, numbers)}
    return Holding(
        job=job,
        person=next((each.person for each in leases if each.person), 0),
        numbers=tuple(sorted(number for number in held if among >> number & 1)),
        since=min(on_this_clock(each.job_began + each.boot_offset, each.boot_offset) for each in leases),
    )


def _count(leases: Iterable[tuple[int | None, Lease]]) -> dict[int, int]:
    """Count the GPUs of each person or group. A reservation and a job in it count once; spare jobs do not count."""
    keys: dict[int, set[str]] = {}
    for number, lease in leases:
        if number is not None and not lease.is_spare:
            keys.setdefault(number, set()).update(lease.gpus)
    return {number: len(theirs) for number, theirs in keys.items()}


def read_view(state: State, processes: Processes, pods: Collection[str] = ()) -> LeaseView:
    """Read the current leases. Takes no lock and changes nothing. `pods` are the keys of GPUs that pods have."""
    leases = scan_leases(state, processes, state.lease_paths()).living
    others = read_other_leases(state, processes)
    gpus = locate_gpus(state.host)
    numbers = {gpu.key: gpu.number for gpu in gpus}
    withheld = _read_drains(state)
    unshared = _read_exclusive(state, numbers)

    def bits_of(keys: Collection[str]) -> int:
        return as_bits(gpu.number for gpu in gpus if gpu.key in keys)

    busy = {
        key for lease in (*leases, *others.of_root, *(user.lease for user in others.of_users)) for key in lease.gpus
    }
    bits_by_state = {word: bits_of({key for key, drain in withheld.items() if drain.state == word}) for word in STATES}
    drained = bits_by_state[DRAINED]
    now = processes.now()
    left = [process for drain in withheld.values() for process in drain.left]
    return LeaseView(
        now=now,
        leases=leases,
        free=bits_of(numbers.keys() - busy - withheld.keys() - set(pods)),
        drained=drained,
        sick=bits_by_state[SICK],
        dirty=bits_by_state[DIRTY],
        in_pods=bits_of(set(pods) - busy),
        shared=bits_of(numbers.keys() - unshared),
        host_total=len(gpus),
        user_leases=others.of_users,
        holders=frozenset((*(_holder(lease, processes) for lease in (*leases, *others.of_root)), *left)),
        numbers=numbers,
        ends=_find_ends(leases, {key: numbers[key] for key in unshared & numbers.keys()}, drained, now),
    )


def _read_drains(state: State) -> dict[str, Drain]:
    """Return by key the GPUs that are not given out, and why."""
    try:
        return by_key(read_drains(state.host))
    except StateError:
        # Nothing can be given then, and clients that ask get the error.
        return {}


def _read_exclusive(state: State, all_keys: Collection[str]) -> Set[str]:
    """Return the keys of the exclusive GPUs; all keys if the policy cannot be read, as nothing is given then."""
    try:
        return state.read_policy().exclusive_keys
    except StateError:
        return set(all_keys)


def _find_ends(leases: Iterable[Lease], numbers: Mapping[str, int], drained: int, now: float) -> dict[int, float]:
    """Return when each GPU is free at the earliest. A lease that is preemptible or has no end may end any time."""
    ends = dict.fromkeys(numbers_in(drained), inf)
    for lease in leases:
        end = kind_of(lease).earliest_end(now)
        for number in _numbers_of(lease, numbers) if end else ():
            ends[number] = max(end, ends.get(number, 0.0))
    return ends


def _holder(lease: Lease, processes: Processes) -> ProcessId:
    """Return the process whose end ends a lease, as far as it is known."""
    return kind_of(lease).process or judge(lease, processes).found_init or lease.creator
