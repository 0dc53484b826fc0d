"""Judge a line of waiting jobs by the rule of the documentation, the slow and obvious way.

It shares no code with the toolkit, and knows only what the service knows: who waits, what is free, and time limits.
"""

from __future__ import annotations

from collections.abc import Sequence


class Waiter:
    """A job: the GPUs that fit it, how many it wants, and its limit with the grace after it; None for no limit."""

    def __init__(self, fits: set[int], count: int, limit: float | None, counts: bool = True) -> None:
        """Wait; `counts` is False for a job that is away, stopped or above its limit."""
        self.fits, self.count, self.limit, self.counts = fits, count, limit, counts


class Moment:
    """What the service knows at one time: free GPUs, known ends of the others, and GPUs that nobody gets."""

    def __init__(self, now: float, free: set[int], ends: dict[int, float], withheld: set[int]) -> None:
        self.now, self.free, self.ends, self.withheld = now, free, ends, withheld

    def may_take(self, job: Waiter) -> set[int]:
        return job.fits - self.withheld

    def in_the_way(self, before: Sequence[Waiter]) -> list[tuple[Waiter, float]]:
        """Return the jobs that others have to respect, each with its earliest start."""
        found: list[tuple[Waiter, float]] = []
        for job in before:
            may_take = self.may_take(job)
            if job.counts and len(may_take) >= job.count:
                times = []
                for gpu in may_take:
                    earlier = [start for other, start in found if gpu in self.may_take(other)]
                    times.append(max(self.now, self.ends.get(gpu, self.now), min(earlier, default=self.now)))
                found.append((job, sorted(times)[job.count - 1]))
        return found

    def allowed(self, job: Waiter, before: Sequence[Waiter]) -> set[int]:
        """Return the GPUs that the rule lets a job have, free or not."""
        allowed = self.may_take(job)
        for other, start in self.in_the_way(before):
            if job.limit is None or self.now + job.limit > start:
                allowed = allowed - self.may_take(other)
        return allowed

    def untouched(self, job: Waiter, before: Sequence[Waiter]) -> set[int]:
        """Return the GPUs for which nobody before a job waits."""
        return self.may_take(job) - {gpu for other, _ in self.in_the_way(before) for gpu in self.may_take(other)}

    def find_fault(self, job: Waiter, before: Sequence[Waiter], given: set[int]) -> str:
        """Return what is wrong with giving these GPUs to a job that comes after others; "" if nothing is."""
        if len(given) != job.count or not given <= self.free & self.allowed(job, before):
            return f"got {sorted(given)}, and may have of {sorted(self.free & self.allowed(job, before))}"
        others = self.free & self.untouched(job, before)
        if len(others) >= job.count and not given <= others:
            return f"got {sorted(given)}, although nobody waits for {sorted(others)}"
        return ""

    def find_idle(self, line: Sequence[Waiter]) -> str:
        """Return which job of a line could have GPUs that stand idle; "" if none could."""
        for place, job in enumerate(line):
            left = self.free & self.allowed(job, line[:place])
            if job.counts and len(left) >= job.count:
                return f"{sorted(left)} are idle, and number {place} of the line wants {job.count} of them"
        return ""
