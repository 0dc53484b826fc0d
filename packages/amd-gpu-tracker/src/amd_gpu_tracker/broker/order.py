"""Who is served next: pure, from who waits, what was used, and what is wanted.

GPUs are bits of a number here, because thousands of waiters are gone through each time something changes.
"""

from __future__ import annotations

from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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
    """

    number: int
    person: int
    among: int


def as_bits(numbers: Iterable[int]) -> int:
    """Return numbers of GPUs as bits."""
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return bits


def sort_waiters(waiters: Iterable[Waiter], used: Mapping[int, float], order: str) -> list[Waiter]:
    """Return waiters in the order in which they are served.

    With `fair` that is first whose person used the fewest GPU-seconds lately; of one person, and with `fifo` of all,
    who came first is served first.
    """
    if order == FIFO:
        return sorted(waiters, key=lambda waiter: waiter.number)
    return sorted(waiters, key=lambda waiter: (used.get(waiter.person, 0.0), waiter.number))


def serve(
    waiters: Iterable[Waiter],
    held_up: int,
    *,
    is_passed_over: Callable[[Waiter], bool],
    try_now: Callable[[Waiter], bool],
) -> None:
    """Try to give GPUs to `waiters`, which are in their order; `try_now` returns whether one waits no more.

    Nobody is overtaken by one who may get one of the same GPUs, unless `is_passed_over` says that it holds up nobody.
    `held_up` are GPUs for which others wait before all of them.
    """
    for waiter in waiters:
        if not waiter.among & ~held_up or is_passed_over(waiter):
            continue
        if waiter.among & held_up or not try_now(waiter):
            held_up |= waiter.among


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
