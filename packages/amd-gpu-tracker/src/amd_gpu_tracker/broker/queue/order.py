"""Decide which job is served next, when at the latest, and which idle jobs end for it; from values to values.

GPUs are bits of an integer here, because every change goes through thousands of waiting jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf

from amd_gpu_tracker.broker.requests.demand import Demand, as_bits, numbers_in
from amd_gpu_tracker.broker.requests.people import FIFO
from amdgpu_discovery.value import Value

# With more jobs before it, a job's latest start is not computed: thousands may wait.
MOST_BEFORE = 32


class Outlook(Value):
    """What is known about the GPUs of others.

    Attributes:
        now: The time, on the clock of `ends`.
        free: The free GPUs, as bits.
        ends: When an exclusive GPU is free at the earliest, by number; GPUs for which this is unknown are missing.
    """

    now: float = 0.0
    free: int = 0
    ends: Mapping[int, float] = {}

    def earliest_start(self, among: int, count: int) -> float:
        """Return the earliest time at which `count` of these GPUs (bits) can be free; `now` if it is unknown."""
        ends = sorted(self.ends.get(number, self.now) for number in numbers_in(among))
        return max(self.now, ends[count - 1]) if count <= len(ends) else self.now

    def has_room(self, waiter: Demand) -> bool:
        """Return whether a job with a time limit could have its GPUs now."""
        return waiter.seconds > 0 and (self.free & waiter.fitting).bit_count() >= waiter.count


def sort_waiters(waiters: Iterable[Demand], used: Mapping[int, float], order: str) -> list[Demand]:
    """Return waiting jobs in the order in which they are served.

    With `fair`, jobs of the person who used the fewest GPU-seconds lately go first. For one person, and with `fifo` for
    all, the order is first come, first served. Spare jobs come after all others.
    """
    if order == FIFO:
        return sorted(waiters, key=lambda waiter: (waiter.is_spare, waiter.number))
    return sorted(waiters, key=lambda waiter: (waiter.is_spare, used.get(waiter.person, 0.0), waiter.number))


def serve(
    waiters: Iterable[Demand],
    *,
    is_passed_over: Callable[[Demand], bool],
    try_now: Callable[[Demand], bool],
    read_outlook: Callable[[], Outlook] = Outlook,
) -> None:
    """Try to give GPUs to `waiters`, which are sorted; `try_now` returns whether a job no longer waits.

    A job overtakes another that may get one of the same GPUs only if `is_passed_over` excludes the other, or if the job
    will have ended before any job that it overtakes could start. `read_outlook` returns the current outlook.
    """
    # For each GPU, by number, the earliest start of the first job that waits for it. Later jobs do not start earlier.
    starts: dict[int, float] = {}
    held_up = 0
    for waiter in waiters:
        outlook = read_outlook()
        common = waiter.fitting & held_up
        earliest = min((starts[number] for number in numbers_in(common)), default=0.0)
        may_go_first = outlook.has_room(waiter) and outlook.now + waiter.seconds <= earliest
        if (common == waiter.fitting and not may_go_first) or is_passed_over(waiter):
            continue
        if (may_go_first or not common) and try_now(waiter):
            continue
        _hold_up(starts, waiter, outlook)
        if may_go_first and common:
            # Its GPUs look free, but it could not get them. One attempt is enough.
            starts.update(dict.fromkeys(numbers_in(waiter.fitting), 0.0))
        held_up |= waiter.fitting


def choose_preempted(waiters: Iterable[Demand], free: int, idle: Mapping[str, int]) -> dict[str, int]:
    """Return the idle jobs to end, each with the number of the waiting job that gets its GPUs.

    Idle jobs end only if the waiting job then gets all its GPUs, and only as many as it needs. `waiters` are sorted.
    `free` are the GPUs that are free or about to be. `idle` are the GPUs of each job that may be ended; earlier entries
    are taken first.
    """
    chosen: dict[str, int] = {}
    left = dict(idle)

    def end_for(waiter: Demand) -> bool:
        nonlocal free, left
        taken = _take(waiter, free, left)
        if taken is None:
            # An idle job with a GPU that fits must not end for a later job: this one comes first.
            left = {job: gpus for job, gpus in left.items() if not gpus & waiter.fitting}
            return False
        chosen.update(dict.fromkeys(taken, waiter.number))
        free |= _union(left.pop(job) for job in taken)
        # It is unknown which GPUs it gets; assume the lowest.
        free &= ~as_bits(numbers_in(free & waiter.fitting)[: waiter.count])
        return True

    serve(waiters, is_passed_over=lambda _: False, try_now=end_for)
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


def _hold_up(starts: dict[int, float], waiter: Demand, outlook: Outlook) -> None:
    numbers = numbers_in(waiter.fitting)
    earlier = max((starts[number] for number in numbers if number in starts), default=0.0)
    start = max(earlier, outlook.earliest_start(waiter.fitting, waiter.count))
    for number in numbers:
        starts.setdefault(number, start)


def _take(waiter: Demand, free: int, idle: Mapping[str, int]) -> list[str] | None:
    """Return the idle jobs to end for a waiting job, the first that suffice; None if all together do not."""

    def is_enough(jobs: Iterable[str]) -> bool:
        return ((free | _union(idle[job] for job in jobs)) & waiter.fitting).bit_count() >= waiter.count

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


def _union(gpus: Iterable[int]) -> int:
    bits = 0
    for each in gpus:
        bits |= each
    return bits
