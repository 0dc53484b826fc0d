"""What a waiting job is told."""

from __future__ import annotations

from amd_gpu_tracker.times import format_past, format_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from amd_gpu_tracker.waiting.ticket import Ticket

MOST_NAMED = 5
MOST_HOLDERS_NAMED = 3


def waiting_for(
    count: int,
    *,
    free: int,
    fitting: int,
    host_total: int,
    before: Sequence[Ticket],
    withheld: Mapping[str, Sequence[int]] = {},
    hint: str = "",
    title: Callable[[Ticket], str] = lambda ticket: ticket.name,
) -> str:
    """Return what a job that wants `count` GPUs waits for: how many of those that fit it are free, and who is before.

    GPUs that are `withheld` are named with why ("drained"), and not free. The `hint` says what can be done about it,
    and `title` what another's job is called.
    """
    which = "" if fitting == host_total else " that fits" if fitting == 1 else " that fit"
    said = f"waiting for {_gpus(count)}: {free} free of {fitting}{which}"
    said += "".join(f", {_named(numbers)} {why}" for why, numbers in withheld.items() if numbers)
    hint = f"; {hint}" if hint else ""
    if not before:
        return f"{said}{hint}"
    named = [
        f"{title(ticket)}: {ticket.count if place else _gpus(ticket.count)}"
        for place, ticket in enumerate(before[:MOST_NAMED])
    ]
    jobs = len(before)
    more = f" and {jobs - len(named)} more" if jobs > len(named) else ""
    return f"{said}, {jobs} {'job' if jobs == 1 else 'jobs'} before this one ({', '.join(named)}{more}){hint}"


def held_by(holders: Sequence[tuple[str, Sequence[int], float]], *, now: float) -> str:
    """Return what stands behind that where it is not known when GPUs are free: which jobs have them.

    Each has a title, the numbers of its GPUs, and since when it has them, in seconds since 1970 (UTC).
    """
    named = [
        f"{_named(numbers)}: {title} since {format_past(since, now=now)}"
        for title, numbers, since in holders[:MOST_HOLDERS_NAMED]
    ]
    more = f" and {len(holders) - len(named)} more" if len(holders) > len(named) else ""
    return f"; {', '.join(named)}{more}" if named else ""


def at_the_latest(seconds: float | None) -> str:
    """Return what stands behind that where it is known in how many seconds it has its GPUs at the latest."""
    return "" if seconds is None else f"; at the latest in {format_seconds(seconds)}"


def _named(numbers: Sequence[int]) -> str:
    # Who waits alone needs little of this package.
    from amdgpu_discovery.unknown_gpus import format_numbers

    return f"GPU{'s' if len(numbers) > 1 else ''} {format_numbers(numbers).replace(',', '')}"


def _gpus(count: int) -> str:
    return f"{count} GPU{'' if count == 1 else 's'}"
