"""Simulate a day of jobs on equal GPUs in whole minutes, with or without backfill, independently of the toolkit."""

from __future__ import annotations

from collections.abc import Sequence


class Job:
    """A job: its arrival, number of GPUs and length, and its time limit, None for no limit."""

    def __init__(self, comes: int, gpus: int, length: int, limit: int | None = None) -> None:
        self.comes, self.gpus, self.length, self.limit = comes, gpus, length, limit


def known_start(job: Job, running: Sequence[tuple[Job, int]], minute: int, total: int) -> int:
    """Return the earliest minute for a job, if jobs end at their limits and jobs without one at any moment."""
    moments = sorted({minute} | {began + other.limit for other, began in running if other.limit})
    for moment in moments:
        held = sum(other.gpus for other, began in running if other.limit and began + other.limit > moment)
        if moment >= minute and total - held >= job.gpus:
            return moment
    return minute


def simulate(jobs: Sequence[Job], total: int, backfill: bool) -> list[int]:
    """Return the minute in which each job starts."""
    starts: dict[Job, int] = {}
    minute = 0
    while len(starts) < len(jobs):
        running = [(job, starts[job]) for job in jobs if job in starts and starts[job] + job.length > minute]
        free = total - sum(job.gpus for job, _ in running)
        first = None
        for job in [job for job in jobs if job.comes <= minute and job not in starts]:
            if job.gpus <= free and (
                first is None or (backfill and job.limit and minute + job.limit <= known_start(*first, minute, total))
            ):
                starts[job] = minute
                running.append((job, minute))
                free -= job.gpus
            elif first is None:
                first = (job, running)
        minute += 1
    return [starts[job] for job in jobs]
