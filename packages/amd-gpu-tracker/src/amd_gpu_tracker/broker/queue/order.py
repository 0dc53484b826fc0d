"""Who is served next, when at the latest, and which idle jobs end for that: pure, from who waits and what is free.

GPUs are bits of a number here, because thousands of waiters are gone through each time something changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf

from amd_gpu_tracker.broker.requests.asked import Asked, as_bits, numbers_in
from amd_gpu_tracker.broker.requests.people import FIFO
from amdgpu_discovery.value import Value

# Behind more than these it is not worked out when one starts at the latest: thousands may wait.
MOST_BEFORE = 32


class Outlook(Value):
    """What is known of the GPUs that others have.

    Attributes:
        now: The time, as in `ends`.
        free: The free GPUs, as bits.
        ends: When an exclusive GPU is free at the earliest, by number; one of which that is not known is left out.
    """

    now: float = 0.0
    free: int = 0
    ends: Mapping[int, float] = {}

    def earliest_start(self, among: int, count: int) -> float:
        """Return before when a job cannot have so many of these GPUs; the time now where that is not known."""
        ends = sorted(self.ends.get(number, self.now) for number in numbers_in(among))
        return max(self.now, ends[count - 1]) if count <= len(ends) else self.now

    def has_room(self, waiter: Asked) -> bool:
        """Return whether a job of which is known when it ends could have its GPUs now."""
        return waiter.seconds > 0 and (self.free & waiter.fitting).bit_count() >= waiter.count


def sort_waiters(waiters: Iterable[Asked], used: Mapping[int, float], order: str) -> list[Asked]:
    """Return waiters in the order in which they are served.

    With `fair` that is first whose person used the fewest GPU-seconds lately; of one person, and with `fifo` of all,
    who came first is served first. Spare jobs come after all others.
    """
    if order == FIFO:
        return sorted(waiters, key=lambda waiter: (waiter.is_spare, waiter.number))
    return sorted(waiters, key=lambda waiter: (waiter.is_spare, used.get(waiter.person, 0.0), waiter.number))


def serve(
    waiters: Iterable[Asked],
    *,
    is_passed_over: Callable[[Asked], bool],
    try_now: Callable[[Asked], bool],
    look: Callable[[], Outlook] = Outlook,
) -> None:
    """Try to give GPUs to `waiters`, which are in their order; `try_now` returns whether one waits no more.

    No job is overtaken by one that may get one of the same GPUs, unless `is_passed_over` says that it holds up none,
    or the job that overtakes has ended before all that it overtakes could start. `look` returns what is known
    at the moment.
    """
    # The earliest start of a job that is held up, or waits, by the bit of a GPU. Later jobs do not start earlier.
    starts: dict[int, float] = {}
    held_up = 0
    for waiter in waiters:
        outlook = look()
        common = waiter.fitting & held_up
        earliest = min((starts[number] for number in numbers_in(common)), default=0.0)
        may_go_first = outlook.has_room(waiter) and outlook.now + waiter.seconds <= earliest
        if (common == waiter.fitting and not may_go_first) or is_passed_over(waiter):
            continue
        if (may_go_first or not common) and try_now(waiter):
            continue
        _hold_up(starts, waiter, outlook)
        if may_go_first and common:
            # Its GPUs are free and cannot be had: one attempt is enough.
            starts.update(dict.fromkeys(numbers_in(waiter.fitting), 0.0))
        held_up |= waiter.fitting


def choose(wanted: Iterable[Asked], free: int, idle: Mapping[str, int]) -> dict[str, int]:
    """Return which idle jobs end, each with the number of who waits for its GPUs: as few as serve one of them wholly.

    `wanted` are the waiting jobs, in their order; `free` are the GPUs that nobody has, and those that are about to be
    free. `idle` are the GPUs of each job that may be ended; the first are taken first.
    """
    chosen: dict[str, int] = {}
    left = dict(idle)

    def end_for(waiter: Asked) -> bool:
        nonlocal free, left
        taken = _take(waiter, free, left)
        if taken is None:
            # What frees one of its GPUs frees it for this job.
            left = {job: gpus for job, gpus in left.items() if not gpus & waiter.fitting}
            return False
        chosen.update(dict.fromkeys(taken, waiter.number))
        free |= _union(left.pop(job) for job in taken)
        # Which ones it gets is not known; the lowest are as good as others.
        free &= ~as_bits(numbers_in(free & waiter.fitting)[: waiter.count])
        return True

    serve(wanted, is_passed_over=lambda _: False, try_now=end_for)
    return chosen


def latest_start(waiter: Asked, before: Sequence[Asked], ends: Mapping[int, float]) -> float | None:
    """Return when a job starts at the latest, in the time of `ends`; None where that is not known.

    `before` are those who are served first, in their order. `ends` is when each GPU is free at the latest, by number;
    one of which that is not known is left out. It is no promise: who comes later may go first, a limit may be extended,
    and a program may use a GPU that it has not reserved.
    """
    if len(before) > MOST_BEFORE:
        return None
    free_at = dict(ends)
    # When the last one starts who waits for a GPU: no job overtakes another that wants the same.
    starts: dict[int, float] = {}
    start = inf
    for each in (*before, waiter):
        numbers = sorted(numbers_in(each.fitting), key=lambda number: free_at.get(number, inf))
        # What must be in one XGMI hive may need those that are free last.
        needed = len(numbers) if each.is_particular else each.count
        free = free_at.get(numbers[needed - 1], inf) if needed <= len(numbers) else inf
        start = max((free, *(starts.get(number, 0.0) for number in numbers)))
        starts.update(dict.fromkeys(numbers, start))
        # Without a limit it may have them for as long as it likes.
        end = start + each.seconds if each.seconds else inf
        # Which GPUs of others it gets is not known: each is taken for one of them.
        taken = numbers[: each.count] if each.fitting == waiter.fitting else numbers
        free_at.update({number: max(free_at.get(number, inf), end) for number in taken})
    return None if start == inf else start


def _hold_up(starts: dict[int, float], waiter: Asked, outlook: Outlook) -> None:
    numbers = numbers_in(waiter.fitting)
    earlier = max((starts[number] for number in numbers if number in starts), default=0.0)
    start = max(earlier, outlook.earliest_start(waiter.fitting, waiter.count))
    for number in numbers:
        starts.setdefault(number, start)


def _take(waiter: Asked, free: int, idle: Mapping[str, int]) -> list[str] | None:
    """Return what has to end for one who waits, the first that will do; None where that would not be enough."""

    def is_enough(jobs: Iterable[str]) -> bool:
        return ((free | _union(idle[job] for job in jobs)) & waiter.fitting).bit_count() >= waiter.count

    taken: list[str] = []
    for job, gpus in idle.items():
        if is_enough(taken):
            break
        taken += [job] if gpus & waiter.fitting & ~free else []
    # The last may be enough without the first.
    for job in tuple(taken):
        rest = [each for each in taken if each != job]
        taken = rest if is_enough(rest) else taken
    return taken if is_enough(taken) else None


def _union(gpus: Iterable[int]) -> int:
    bits = 0
    for each in gpus:
        bits |= each
    return bits
