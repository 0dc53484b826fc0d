"""Decide which job is served next, when at the latest, and which idle jobs end for it; from values to values.

GPUs are bits of an integer here, because every change goes through thousands of waiting jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from math import inf
from operator import or_

from amd_gpu_sharing.broker.requests.demand import Demand, as_bits, numbers_in
from amd_gpu_sharing.broker.requests.people import FIFO
from amd_gpu_sharing.tickets import Ticket
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    # A job in the order: its place in the queue, or a reservation that was planned.
    Job = TypeVar("Job")

# With more jobs before it, a job's latest start is not computed: thousands may wait.
MOST_BEFORE = 32


class Outlook(Value):
    """What is known about the GPUs of others.

    Attributes:
        now: The time, on the clock of `ends`.
        free: The free GPUs, as bits.
        ends: When an exclusive GPU is free at the earliest, by number; GPUs for which this is unknown are missing.
        planned: When a reservation for later begins on a GPU, by number.
    """

    now: float = 0.0
    free: int = 0
    ends: Mapping[int, float] = {}
    planned: Mapping[int, float] = {}

    def reserved_later(self, job: Demand) -> int:
        """Return the GPUs (bits) on which a reservation begins before a job that starts now has ended."""
        end = self.now + job.seconds if job.seconds else inf
        return as_bits(number for number, start in self.planned.items() if start < end)

    def free_at(self, number: int) -> float:
        """Return when a GPU is free at the earliest; `now` if it is unknown."""
        return max(self.now, self.ends.get(number, self.now))


class HeldUp:
    """The GPUs that waiting jobs may take, which later jobs get only if they end in time.

    A job may have a GPU if each job before it either does not fit the GPU, or cannot start before this one has ended.
    """

    def __init__(self) -> None:
        self.gpus = 0
        # By number, the earliest start of a job that may take the GPU.
        self._starts: dict[int, float] = {}

    def add(self, waiter: Demand, outlook: Outlook) -> None:
        """Add the next job in the order, with the GPUs that it may take."""
        start = self._start_of(waiter, outlook)
        for number in numbers_in(waiter.fitting):
            self._starts[number] = min(start, self._starts.get(number, start))
        self.gpus |= waiter.fitting

    def close(self, gpus: int) -> None:
        """Give GPUs (bits) to no later job: they look free, but a job could not get them. One attempt is enough."""
        self._starts.update(dict.fromkeys(numbers_in(gpus), 0.0))

    def is_known(self, waiter: Demand, outlook: Outlook) -> bool:
        """Return whether `add` would change nothing: each GPU is held up by a job that starts no later."""
        if waiter.fitting & ~self.gpus:
            return False
        last = max(self._starts[number] for number in numbers_in(waiter.fitting))
        return self._start_of(waiter, outlook) >= last

    def left_for(self, job: Demand, outlook: Outlook) -> Iterator[int]:
        """Yield the sets of GPUs (bits) from which a job may be served, each large enough, the best first.

        GPUs that no other job waits for come first, so that the others stay free for those that do.
        """
        job = job.replace(fitting=job.fitting & ~outlook.reserved_later(job)) if outlook.planned else job
        outside = job.fitting & ~self.gpus
        if outside.bit_count() >= job.count:
            yield outside
        in_time = outside | self._free_in_time(job, outlook)
        if in_time != outside and (outlook.free & in_time).bit_count() >= job.count:
            yield in_time

    def _start_of(self, waiter: Demand, outlook: Outlook) -> float:
        """Return the earliest start of a job in the order; `now` if it is unknown.

        It gets a GPU no earlier than the first job before it that waits for the same GPU. When enough memory of a GPU
        is free for a part is unknown.
        """
        if waiter.vram_mb:
            return outlook.now
        numbers = numbers_in(waiter.fitting)
        free_at = sorted(max(outlook.free_at(number), self._starts.get(number, 0.0)) for number in numbers)
        return free_at[waiter.count - 1] if waiter.count <= len(free_at) else outlook.now

    def _free_in_time(self, job: Demand, outlook: Outlook) -> int:
        """Return the GPUs (bits) of other jobs that a job gives back before any of these can start."""
        if not job.seconds:
            return 0
        end = outlook.now + job.seconds
        return as_bits(number for number in numbers_in(job.fitting & self.gpus) if end <= self._starts[number])


def sort_tickets(tickets: Iterable[Ticket], used: Mapping[int, float], order: str) -> list[Ticket]:
    """Return the tickets of waiting jobs in the order in which they are served.

    With `fair`, jobs of the person who used the fewest GPU-seconds lately go first. For one person, and with `fifo` for
    all, the order is first come, first served. Before them come jobs that root put first, the last one foremost. Spare
    jobs come after all others.
    """
    shares = {} if order == FIFO else used
    return sorted(tickets, key=lambda each: (each.is_spare, -each.put_first, shares.get(each.person, 0.0), each.number))


def serve(
    waiters: Mapping[Job, Demand],
    *,
    holds_up: Callable[[Job], Demand | None],
    try_now: Callable[[Job, int], bool],
    read_outlook: Callable[[], Outlook] = Outlook,
) -> None:
    """Try to give GPUs to `waiters`, which are sorted, until nobody gets any more.

    `holds_up` returns what a job wants of the GPUs that it may take, or None if it holds up no other and gets none.
    `try_now` tries to serve a job from some GPUs (bits), and returns whether the job no longer waits. `read_outlook`
    returns the current outlook.
    """
    while True:
        left = {job: waiters[job] for job in _try_each(waiters, holds_up, try_now, read_outlook)}
        # A person who got GPUs may have reached a limit, and the other jobs of that person hold up nobody then.
        if len(left) in (0, len(waiters)):
            return
        waiters = left


def left_for(
    newcomer: Demand,
    waiters: Mapping[Job, Demand],
    *,
    holds_up: Callable[[Job], Demand | None],
    outlook: Outlook,
) -> list[int]:
    """Return the sets of GPUs (bits) from which a job that comes after all `waiters` may be served, the best first.

    `holds_up` is that of `serve`.
    """
    held_up = HeldUp()
    for job, demand in waiters.items():
        if not held_up.is_known(demand, outlook) and (waiter := holds_up(job)):
            held_up.add(waiter, outlook)
    return list(held_up.left_for(newcomer, outlook))


def choose_preempted(waiters: Mapping[Job, Demand], free: int, idle: Mapping[str, int]) -> dict[str, Job]:
    """Return the idle jobs to end, each with the waiting job that gets its GPUs.

    Idle jobs end only if the waiting job then gets all its GPUs, and only as many as it needs. `waiters` are sorted.
    `free` are the GPUs that are free or about to be. `idle` are the GPUs of each job that may be ended; earlier entries
    are taken first.
    """
    chosen: dict[str, Job] = {}
    left = dict(idle)

    def end_for(waiting: Job, among: int) -> bool:
        nonlocal free, left
        waiter = waiters[waiting]
        taken = _take(waiter.replace(fitting=among), free, left)
        if taken is None:
            # An idle job with a GPU that fits must not end for a later job: this one comes first.
            left = {job: gpus for job, gpus in left.items() if not gpus & waiter.fitting}
            return False
        chosen.update(dict.fromkeys(taken, waiting))
        free = reduce(or_, (left.pop(job) for job in taken), free)
        # It is unknown which GPUs it gets; assume the lowest.
        free &= ~as_bits(numbers_in(free & waiter.fitting)[: waiter.count])
        return True

    serve(waiters, holds_up=waiters.get, try_now=end_for)
    return chosen


def latest_start(waiter: Demand, before: Sequence[Demand], ends: Mapping[int, float]) -> float | None:
    """Return when a job starts at the latest, on the clock of `ends`; None if that is unknown.

    `before` are the jobs that are served first, sorted. `ends` is when each GPU is free at the latest, by number; GPUs
    for which this is unknown are missing. The result is no promise: a later job may go first, a limit may be extended,
    and a program may use a GPU without a reservation.
    """
    if len(before) > MOST_BEFORE:
        return None
    free_at = dict(ends)
    # For each GPU, the start of the last job so far that wants it: jobs that want the same GPU do not overtake.
    starts: dict[int, float] = {}
    start = inf
    for each in (*before, waiter):
        numbers = sorted(numbers_in(each.fitting), key=lambda number: free_at.get(number, inf))
        # GPUs of one XGMI hive may include those that are free last.
        needed = len(numbers) if each.is_particular else each.count
        free = free_at.get(numbers[needed - 1], inf) if needed <= len(numbers) else inf
        start = max((free, *(starts.get(number, 0.0) for number in numbers)))
        starts.update(dict.fromkeys(numbers, start))
        # Without a limit, the job may keep them forever.
        end = start + each.seconds if each.seconds else inf
        # It is unknown which GPUs a job with other fitting GPUs takes; assume that all of them are taken.
        taken = numbers[: each.count] if each.fitting == waiter.fitting else numbers
        free_at.update({number: max(free_at.get(number, inf), end) for number in taken})
    return None if start == inf else start


def _try_each(
    waiters: Mapping[Job, Demand],
    holds_up: Callable[[Job], Demand | None],
    try_now: Callable[[Job, int], bool],
    read_outlook: Callable[[], Outlook],
) -> Iterator[Job]:
    """Try to give GPUs to each job once, as `serve` does; yield those that still wait."""
    held_up = HeldUp()
    for job, demand in waiters.items():
        outlook = read_outlook()
        sets = list(held_up.left_for(demand, outlook))
        if not sets and held_up.is_known(demand, outlook):
            yield job
            continue
        waiter = holds_up(job)
        if waiter and any(try_now(job, gpus) for gpus in sets):
            continue
        yield job
        if waiter is None:
            continue
        if sets and not demand.is_particular:
            held_up.close(sets[-1] & held_up.gpus & outlook.free)
        held_up.add(waiter, outlook)


def _take(waiter: Demand, free: int, idle: Mapping[str, int]) -> list[str] | None:
    """Return the idle jobs to end for a waiting job, the first that suffice; None if all together do not."""

    def is_enough(jobs: Iterable[str]) -> bool:
        return (reduce(or_, (idle[job] for job in jobs), free) & waiter.fitting).bit_count() >= waiter.count

    taken: list[str] = []
    for job, gpus in idle.items():
        if is_enough(taken):
            break
        taken += [job] if gpus & waiter.fitting & ~free else []
    # A job taken later may make an earlier one unnecessary.
    for job in tuple(taken):
        rest = [each for each in taken if each != job]
        taken = rest if is_enough(rest) else taken
    return taken if is_enough(taken) else None
