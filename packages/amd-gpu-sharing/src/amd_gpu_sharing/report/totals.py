"""Sum up reservations by person, GPU, image or day, within the period of a report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta

from amd_gpu_tracker import Used
from amdgpu_discovery.value import Value

# For each quarter of an hour seen: its local day, and the start of the next day in seconds since 1970.
Days = dict[int, tuple[str, float]]

BY = ("person", "gpu", "image", "day")
NOT_KNOWN = "(not known)"
# All time zones differ, and all clocks change, by whole quarters of an hour. A report has few quarters and many lines.
QUARTER = 900


class Total:
    """The sum for a person, a GPU, an image or a day, while the history is read."""

    def __init__(self, title: str) -> None:
        self.title = title
        # GPU-seconds reserved, the part of them with a record of use, and the part of that in which GPUs worked.
        self.gpu_seconds = self.seen_seconds = self.busy_seconds = 0.0
        # Number of reservations that began within the period.
        self.starts = 0
        # The highest memory use seen in one reservation; None if it was never read.
        self.peak_bytes: int | None = None

    def add(self, used: Used, seconds: float, *, is_start: bool) -> None:
        """Count a reservation; a part of another one counts only as a start."""
        self.starts += is_start
        peak_bytes = used.peak_bytes
        if peak_bytes is not None and (self.peak_bytes is None or peak_bytes > self.peak_bytes):
            self.peak_bytes = peak_bytes
        if used.part_of or seconds <= 0:
            return
        self.gpu_seconds += seconds
        if used.busy is not None:
            self.seen_seconds += seconds
            self.busy_seconds += seconds * used.busy

    @property
    def share_used(self) -> float | None:
        """Return the share of time in which GPUs worked, 0 to 1; None if it was never read."""
        return self.busy_seconds / self.seen_seconds if self.seen_seconds else None

    @property
    def share_idle(self) -> float | None:
        """Return the share of time in which GPUs were idle; None if it was never read."""
        return None if self.share_used is None else 1 - self.share_used


class Report(Value):
    """The totals of a period in seconds since 1970 (UTC), by one of BY, and their sum."""

    since: float
    until: float
    by: str
    # Days in order, everything else by decreasing GPU time.
    totals: tuple[Total, ...]
    whole: Total
    # Number of reservations that ended at an unknown time: in a power cut, or unseen.
    uncertain: int = 0
    # Number of lines of the history that could not be read.
    unreadable: int = 0


class Names:
    """The names of people and GPUs in a report."""

    def __init__(self, person: Callable[[int | None], str], gpu: Callable[[str], str]) -> None:
        self.person = person
        self.gpu = gpu

    def holder(self, used: Used) -> str:
        """Return who had the GPUs: a pod, as namespace/name, or else a person."""
        return used.pod or self.person(used.person)


def make_report(history: Iterable[Used | None], names: Names, *, by: str, since: float, until: float) -> Report:
    """Sum up reservations. Each counts with the part that lies within the period."""
    sums: dict[str, Total] = {}
    days: Days = {}
    whole = Total("all")
    uncertain = 0
    unreadable = 0
    for used in history:
        if used is None:
            unreadable += 1
            continue
        begin = used.since if used.since > since else since
        end = used.since + used.seconds
        end = end if end < until else until
        whole.add(used, (end - begin) * len(used.gpus), is_start=used.since >= since)
        uncertain += not used.is_certain
        for title, seconds, is_start in _parts(used, names, by, begin, end, days=days):
            if title not in sums:
                sums[title] = Total(title)
            sums[title].add(used, seconds, is_start=is_start)
    order = sorted(sums.values(), key=lambda each: each.title if by == "day" else (-each.gpu_seconds, each.title))
    return Report(
        since=since,
        until=until,
        by=by,
        totals=tuple(order),
        whole=whole,
        uncertain=uncertain,
        unreadable=unreadable,
    )


def _parts(used: Used, names: Names, by: str, begin: float, end: float, *, days: Days) -> list[tuple[str, float, bool]]:
    """Return the titles under which a reservation counts, with GPU-seconds and whether it began there."""
    is_start = used.since >= begin
    gpus = len(used.gpus)
    if by == "gpu":
        return [(names.gpu(gpu), end - begin, is_start) for gpu in used.gpus]
    if by == "day":
        return [(day, (last - first) * gpus, used.since >= first) for day, first, last in split_days(begin, end, days)]
    title = names.holder(used) if by == "person" else used.image or NOT_KNOWN
    return [(title, (end - begin) * gpus, is_start)]


def split_days(begin: float, end: float, days: Days) -> Iterator[tuple[str, float, float]]:
    """Yield the local days of a period, each with its part of it; `days` caches days for the next call."""
    while True:
        quarter = int(begin // QUARTER)
        if quarter not in days:
            days[quarter] = _find_day(quarter * QUARTER)
        day, midnight = days[quarter]
        yield day, begin, min(end, midnight)
        if midnight >= end:
            return
        begin = midnight


def _find_day(moment: float) -> tuple[str, float]:
    """Return the local day of a moment, and the start of the next; clock changes make days of 23 or 25 hours."""
    day = datetime.fromtimestamp(moment).astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    return f"{day:%Y-%m-%d}", (day.replace(tzinfo=None) + timedelta(days=1)).astimezone().timestamp()
