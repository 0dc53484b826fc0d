"""Formats and parses lengths of time and moments, as people write them."""

from __future__ import annotations

import time

from amd_gpu_tracker.errors import WaitRefused

UNITS = (("day", "d", 86400), ("hour", "h", 3600), ("minute", "min", 60), ("second", "s", 1))
# In the form of options.
SECONDS_BY_UNIT = {name[0]: length for name, _, length in UNITS}
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
SHORTEST_DAY = 3
DAYS_FROM_NOW = ("today", "tomorrow")
MOMENTS = "write Mon, Mon 08:00, 18:00, 2026-12-01 or '2026-12-01 08:00'"


def format_seconds(seconds: float) -> str:
    """Return a time as people say it: 12 s, 4 min 12 s, 3 h 5 min."""
    whole = int(seconds)
    hours, minutes = whole // 3600, whole % 3600 // 60
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"


def format_minutes(seconds: float) -> str:
    """Return a time without its seconds: less than 1 min, 35 min, 2 h 10 min, 3 d 2 h."""
    hours, minutes = divmod(int(seconds // 60), 60)
    if hours < 1:
        return f"{minutes} min" if seconds >= 60 else "less than 1 min"
    return format_seconds(seconds) if hours < 48 else f"{hours // 24} d {hours % 24} h"


def format_duration(seconds: int) -> str:
    """Return a duration in the form of options, such as `24h`; days become hours, which are unambiguous."""
    unit = next(unit for unit in "hms" if not seconds % SECONDS_BY_UNIT[unit])
    return f"{seconds // SECONDS_BY_UNIT[unit]}{unit}"


def format_age(seconds: float) -> str:
    """Return an age in its largest unit, as the lists of engines do."""
    count, unit, _ = _in_largest_unit(seconds)
    return f"{count} {unit}{'' if count == 1 else 's'} ago"


def format_short_age(seconds: float) -> str:
    """Return an age in as few characters as possible."""
    count, _, unit = _in_largest_unit(seconds)
    return f"{count} {unit}"


def format_time(moment: float) -> str:
    """Return a time of the wall clock in this machine's time zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))


def format_moment(moment: float) -> str:
    """Return a moment that may be days away, in this machine's time zone, which it names."""
    return time.strftime("%a %Y-%m-%d %H:%M %Z", time.localtime(moment))


def format_past(moment: float, *, now: float) -> str:
    """Return a past moment as people write it: 14:32, Mon 14:32, 2026-11-02 14:32; both since 1970 (UTC)."""
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


def parse_at_most(text: str, most: int) -> int:
    """Return the seconds of a duration, 0 for ""; WaitRefused for more than `most` seconds, which are whole days.

    WaitRefused also for a number without a unit: two seconds are hardly ever meant.
    """
    if text.isdecimal() and text.strip("0"):
        raise WaitRefused(f"{text[:20]} has no unit", hint=f"write {text[:20]}h for hours, or {text[:20]}m for minutes")
    seconds = int(parse_duration(text) or 0)
    if seconds > most:
        raise WaitRefused(f"{text} is longer than {most // 86400} days", hint="write 30m, 4h or 2d")
    return seconds


def parse_moment(text: str, *, now: float) -> float:
    """Return the next moment that `Mon`, `Mon 08:00`, `18:00`, `2026-12-01` or `2026-12-01 08:00` means; WaitRefused.

    The day may also be `today` or `tomorrow`. The text is in this machine's time zone; `now` and the result are in
    seconds since 1970 (UTC).
    """
    day, _, clock = text.strip().rpartition(" ") if ":" in text else (text.strip(), "", "00:00")
    today = time.localtime(now)
    try:
        hour = time.strptime(clock, "%H:%M")
        if day[:4].isdecimal():
            candidates = [_moment(time.strptime(day, "%Y-%m-%d"), hour, 0)]
        elif day.lower() in DAYS_FROM_NOW:
            candidates = [_moment(today, hour, DAYS_FROM_NOW.index(day.lower()))]
        else:
            first, step = ((_day_of_week(day) - today.tm_wday) % len(DAYS), len(DAYS)) if day else (0, 1)
            candidates = [_moment(today, hour, first), _moment(today, hour, first + step)]
    except (OverflowError, ValueError):
        raise WaitRefused(f"{text[:40]!r} is not a time", hint=MOMENTS) from None
    moment = next((each for each in candidates if each > now), None)
    if moment is None:
        raise WaitRefused(f"{text[:40]} is in the past", hint=MOMENTS)
    return moment


def _in_largest_unit(seconds: float) -> tuple[int, str, str]:
    unit, short, length = next((each for each in UNITS if seconds >= each[-1]), UNITS[-1])
    return max(0, int(seconds // length)), unit, short


def _day_of_week(word: str) -> int:
    """Return the number of a weekday from its first letters; ValueError."""
    return [day[: max(len(word), SHORTEST_DAY)] for day in DAYS].index(word.lower())


def _moment(day: time.struct_time, hour: time.struct_time, later: int) -> float:
    # mktime handles lengths of months and changes of the clock.
    date = (day.tm_year, day.tm_mon, day.tm_mday + later)
    return time.mktime((*date, hour.tm_hour, hour.tm_min, 0, 0, 0, -1))
