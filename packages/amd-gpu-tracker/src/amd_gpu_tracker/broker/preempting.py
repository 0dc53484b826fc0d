"""Which idle reservations and jobs give their GPUs to waiting jobs: as few as serve one of them wholly."""

from __future__ import annotations

from collections.abc import Iterable

from amd_gpu_tracker.broker.order import Waiter
from amdgpu_discovery.value import Value


class Idler(Value):
    """A reservation or job that may be ended, and its GPUs, as bits."""

    job: str
    gpus: int


def choose(wanted: Iterable[Waiter], free: int, idlers: Iterable[Idler]) -> dict[str, int]:
    """Return the jobs that are to be ended, each with the number of who waits for its GPUs.

    `wanted` are the waiting jobs, in the order in which they are served; `free` are the unreserved GPUs, and those
    that are about to be free. `idlers` are taken in the order given. No job passes an earlier one for the same GPUs.
    """
    chosen: dict[str, int] = {}
    left = list(idlers)
    for each in wanted:
        taken = _take(each, free, left)
        if taken is None:
            free &= ~each.among
            left = [idler for idler in left if not idler.gpus & each.among]
            continue
        chosen.update({idler.job: each.number for idler in taken})
        left = [idler for idler in left if idler not in taken]
        free = _without(free | _bits(taken), each)
    return chosen


def _take(wanted: Waiter, free: int, idlers: Iterable[Idler]) -> list[Idler] | None:
    """Return what has to end for one who waits, the first that will do; None where that would not be enough."""
    taken: list[Idler] = []
    for idler in idlers:
        if _is_enough(wanted, free | _bits(taken)):
            break
        if idler.gpus & wanted.among & ~free:
            taken.append(idler)
    # The last may be enough without the first.
    for idler in tuple(taken):
        rest = [each for each in taken if each is not idler]
        taken = rest if _is_enough(wanted, free | _bits(rest)) else taken
    return taken if _is_enough(wanted, free | _bits(taken)) else None


def _is_enough(wanted: Waiter, free: int) -> bool:
    return (free & wanted.among).bit_count() >= wanted.count


def _bits(idlers: Iterable[Idler]) -> int:
    bits = 0
    for idler in idlers:
        bits |= idler.gpus
    return bits


def _without(free: int, wanted: Waiter) -> int:
    """Return the free GPUs without as many as one who waits gets, which are the lowest here."""
    for _ in range(wanted.count):
        lowest = free & wanted.among & -(free & wanted.among)
        free &= ~lowest
    return free
