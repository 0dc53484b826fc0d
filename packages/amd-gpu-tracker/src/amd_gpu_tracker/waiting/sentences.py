"""What is said to a person who waits, and how people write lengths of time and moments."""

from __future__ import annotations

import time

from amd_gpu_tracker.errors import WaitRefused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from amd_gpu_tracker.waiting.ticket import Ticket

SECONDS_BY_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86400}
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
SHORTEST_DAY = 3
MOMENTS = "write Mon, Mon 08:00, 18:00, 2026-12-01 or '2026-12-01 08:00'"
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


def got(numbers: Sequence[int], seconds: float | None) -> str:
    """Return which GPUs a job got, and after how long where it had to wait."""
    *first, last = map(str, numbers)
    gpus = f"GPUs {', '.join(first)} and {last}" if first else f"GPU {last}"
    return gpus if seconds is None else f"{gpus} after {format_seconds(seconds)}"


def format_seconds(seconds: float) -> str:
    """Return a time as people say it: 12 s, 4 min 12 s, 3 h 5 min."""
    whole = int(seconds)
    hours, minutes = whole // 3600, whole % 3600 // 60
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"


def format_past(moment: float, *, now: float) -> str:
    """Return a moment that is over as people say it: 14:32, Mon 14:32, 2026-11-02 14:32; both since 1970 (UTC)."""
    then, today = time.localtime(moment), time.localtime(now)
    if then[:3] == today[:3]:
        return time.strftime("%H:%M", then)
    is_this_week = 0 <= now - moment < (len(DAYS) - 1) * 86400
    return time.strftime("%a %H:%M" if is_this_week else "%Y-%m-%d %H:%M", then)


def parse_duration(text: str) -> float | None:
    """Return the seconds of `30s`, `10m`, `2h`, `1d` or a number of seconds, None for ""; WaitRefused."""
    if not text:
        return None
    number, unit = (text[:-1], text[-1]) if text[-1] in SECONDS_BY_UNIT else (text, "s")
    if not (number.isascii() and number.isdecimal() and len(number) <= 9):
        raise WaitRefused(f"{text[:20]!r} is not a time to wait", hint="write 30s, 10m or 2h")
    return float(int(number) * SECONDS_BY_UNIT[unit])


def parse_moment(text: str, *, now: float) -> float:
    """Return the next moment that `Mon`, `Mon 08:00`, `18:00`, `2026-12-01` or `2026-12-01 08:00` means; WaitRefused.

    All are times of this machine's time zone, in seconds since 1970 (UTC).
    """
    day, _, clock = text.strip().rpartition(" ") if ":" in text else (text.strip(), "", "00:00")
    today = time.localtime(now)
    try:
        hour = time.strptime(clock, "%H:%M")
        if day[:4].isdecimal():
            candidates = [_moment(time.strptime(day, "%Y-%m-%d"), hour, 0)]
        else:
            first, step = ((_day_of_week(day) - today.tm_wday) % len(DAYS), len(DAYS)) if day else (0, 1)
            candidates = [_moment(today, hour, first), _moment(today, hour, first + step)]
    except (OverflowError, ValueError):
        raise WaitRefused(f"{text[:40]!r} is not a time", hint=MOMENTS) from None
    moment = next((each for each in candidates if each > now), None)
    if moment is None:
        raise WaitRefused(f"{text[:40]} is over", hint=MOMENTS)
    return moment


def _day_of_week(word: str) -> int:
    """Return the number of a day by its first letters; ValueError."""
    return [day[: max(len(word), SHORTEST_DAY)] for day in DAYS].index(word.lower())


def _moment(day: time.struct_time, hour: time.struct_time, later: int) -> float:
    # mktime knows how long months are, and when clocks are changed.
    date = (day.tm_year, day.tm_mon, day.tm_mday + later)
    return time.mktime((*date, hour.tm_hour, hour.tm_min, 0, 0, 0, -1))


def _named(numbers: Sequence[int]) -> str:
    # Who waits alone needs little of this package.
    from amdgpu_discovery.unknown_gpus import format_numbers

    return f"GPU{'s' if len(numbers) > 1 else ''} {format_numbers(numbers).replace(',', '')}"


def _gpus(count: int) -> str:
    return f"{count} GPU{'' if count == 1 else 's'}"
