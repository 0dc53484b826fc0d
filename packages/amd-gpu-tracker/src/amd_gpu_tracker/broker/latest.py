"""Before when one who waits has its GPUs, by the time limits that are known now: pure, and no promise.

Who comes later may go first, a limit may be extended, and a program may use a GPU that it has not reserved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from amd_gpu_tracker.broker.order import Waiter, numbers_in

# Behind more than these it is not worked out: thousands may wait.
MOST_BEFORE = 32


def latest_start(waiter: Waiter, before: Sequence[Waiter], ends: Mapping[int, float]) -> float | None:
    """Return when a job starts at the latest, in the time of `ends`; None where that is not known.

    `before` are those who are served first, in their order. `ends` is when each GPU is free at the latest, by number;
    one of which that is not known is left out.
    """
    left = dict(ends)
    if len(before) > MOST_BEFORE or _free(waiter, left) is None:
        return None
    starts: list[tuple[Waiter, float | None]] = []
    for each in before:
        start = _start(each, starts, left)
        starts.append((each, start))
        if start is None:
            continue
        numbers = _known(each, left)
        # Which GPUs of others it gets is not known: each is taken for one of them.
        taken = numbers[: each.count] if each.among == waiter.among else numbers
        # Without a limit it may have them for as long as it likes.
        end = start + each.seconds if each.seconds else inf
        left.update({number: max(left[number], end) for number in taken})
    start = _start(waiter, starts, left)
    return None if start == inf else start


def _start(waiter: Waiter, starts: Sequence[tuple[Waiter, float | None]], ends: Mapping[int, float]) -> float | None:
    """Return when a job starts if it overtakes no job that wants one of the same GPUs."""
    held_up = [start for each, start in starts if each.among & waiter.among]
    known = [start for start in (*held_up, _free(waiter, ends)) if start is not None]
    return max(known) if len(known) > len(held_up) else None


def _free(waiter: Waiter, ends: Mapping[int, float]) -> float | None:
    """Return when enough GPUs are free."""
    # What must be in one XGMI hive may need those that are free last.
    needed = waiter.among.bit_count() if waiter.is_particular else waiter.count
    known = _known(waiter, ends)
    return ends[known[needed - 1]] if needed <= len(known) else None


def _known(waiter: Waiter, ends: Mapping[int, float]) -> list[int]:
    """Return the GPUs that fit a job and of which it is known when they are free, the first first."""
    return sorted((number for number in numbers_in(waiter.among) if number in ends), key=lambda number: ends[number])
