"""Who is served next: pure, from who waits, what was used, and what is wanted.

GPUs are bits of a number here, because thousands of waiters are gone through each time something changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from amdgpu_discovery.value import Value

FAIR = "fair"
FIFO = "fifo"
# What was used counts half after this time.
HALF_LIFE_SECONDS = 6 * 3600.0


class Waiter(Value):
    """One who waits, as far as the order goes.

    Attributes:
        number: Number of the ticket.
        person: Whose job it is.
        among: The GPUs that fit, as bits.
        count: How many of them it wants.
        seconds: After how long its job is ended, 0 for never.
        is_spare: It wants GPUs only as long as no other job does.
        is_particular: Not any GPUs of those that fit will do, if there are as many as it wants.
    """

    number: int
    person: int
    among: int
    count: int = 1
    seconds: float = 0.0
    is_spare: bool = False
    is_particular: bool = False


class Outlook(Value):
    """What is known of the GPUs that others have.

    Attributes:
        now: The time, as in `ends`.
        free: The free GPUs, as bits.
        ends: When a GPU is free at the earliest, by number; a GPU of which that is not known is left out.
    """

    now: float = 0.0
    free: int = 0
    ends: Mapping[int, float] = {}

    def earliest_start(self, among: int, count: int) -> float:
        """Return before when a job cannot have so many of these GPUs; the time now where that is not known."""
        ends = sorted(self.ends.get(number, self.now) for number in numbers_in(among))
        return max(self.now, ends[count - 1]) if count <= len(ends) else self.now

    def has_room(self, waiter: Waiter) -> bool:
        """Return whether a job of which is known when it ends could have its GPUs now."""
        return waiter.seconds > 0 and (self.free & waiter.among).bit_count() >= waiter.count


def as_bits(numbers: Iterable[int]) -> int:
    """Return numbers of GPUs as bits."""
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return bits


def numbers_in(bits: int) -> list[int]:
    """Return the numbers of the GPUs that bits stand for."""
    return [number for number in range(bits.bit_length()) if bits >> number & 1]


def sort_waiters(waiters: Iterable[Waiter], used: Mapping[int, float], order: str) -> list[Waiter]:
    """Return waiters in the order in which they are served.

    With `fair` that is first whose person used the fewest GPU-seconds lately; of one person, and with `fifo` of all,
    who came first is served first. Spare jobs come after all others.
    """
    if order == FIFO:
        return sorted(waiters, key=lambda waiter: (waiter.is_spare, waiter.number))
    return sorted(waiters, key=lambda waiter: (waiter.is_spare, used.get(waiter.person, 0.0), waiter.number))


def serve(
    waiters: Iterable[Waiter],
    *,
    is_passed_over: Callable[[Waiter], bool],
    try_now: Callable[[Waiter], bool],
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
        common = waiter.among & held_up
        may_go_first = outlook.has_room(waiter) and outlook.now + waiter.seconds <= _earliest(starts, common)
        if (common == waiter.among and not may_go_first) or is_passed_over(waiter):
            continue
        if (may_go_first or not common) and try_now(waiter):
            continue
        _hold_up(starts, waiter, outlook)
        if may_go_first and common:
            # Its GPUs are free and cannot be had: one attempt is enough.
            starts.update(dict.fromkeys(numbers_in(waiter.among), 0.0))
        held_up |= waiter.among


def _earliest(starts: Mapping[int, float], bits: int) -> float:
    return min((starts[number] for number in numbers_in(bits)), default=0.0)


def _hold_up(starts: dict[int, float], waiter: Waiter, outlook: Outlook) -> None:
    numbers = numbers_in(waiter.among)
    earlier = max((starts[number] for number in numbers if number in starts), default=0.0)
    start = max(earlier, outlook.earliest_start(waiter.among, waiter.count))
    for number in numbers:
        starts.setdefault(number, start)


def decayed(used: Mapping[int, float], seconds: float) -> dict[int, float]:
    """Return what was used as it counts some seconds later; what is next to nothing is forgotten."""
    factor = 0.5 ** (max(0.0, seconds) / HALF_LIFE_SECONDS)
    return {person: left for person, amount in used.items() if (left := amount * factor) >= 0.001}


def with_use(used: Mapping[int, float], gpus: Mapping[int, int], seconds: float) -> dict[int, float]:
    """Return what was used after some more seconds in which persons held so many `gpus`.

    What is used at the begin of that time has lost a part of its weight at its end, as the half-life says.
    """
    seconds = max(0.0, seconds)
    after = decayed(used, seconds)
    decay = 0.6931471805599453 / HALF_LIFE_SECONDS
    weight = (1 - 0.5 ** (seconds / HALF_LIFE_SECONDS)) / decay
    for person, count in gpus.items():
        after[person] = after.get(person, 0.0) + count * weight
    return after
