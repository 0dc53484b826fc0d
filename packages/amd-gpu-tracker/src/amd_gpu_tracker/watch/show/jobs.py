"""Rows of the jobs that have GPUs, for lists of all jobs."""

from __future__ import annotations

from amd_gpu_tracker.times import format_seconds
from amdgpu_discovery.untrusted.plain_text import printable
from amdgpu_discovery.usage.people import name_of_person

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amd_gpu_tracker import RunningJob

RUNNING = ("Person", "Name", "GPUs", "Numbers", "Process", "For")
# The length of a container id in lists of Docker and Podman.
SHORT_ID = 12
ENDS, IDLE = "Ends in", "Idle for"
EMPTY_QUEUE = "No job waits for GPUs"


def running_rows(running: Sequence[RunningJob], now: float) -> list[tuple[str, ...]]:
    """Return the header and the jobs that have GPUs; with columns for their end and idle time if any has these."""
    rows = [RUNNING, *(_running_row(job, now) for job in running)]
    rows = with_column(rows, ENDS, [time_left(job.until, now) for job in running])
    return with_column(rows, IDLE, [_idle(job, now) for job in running])


def with_column(rows: list[tuple[str, ...]], header: str, cells: Sequence[str]) -> list[tuple[str, ...]]:
    """Return rows with one more column, unless all its cells are empty."""
    if set(cells) <= {"-"}:
        return rows
    return [(*row, cell) for row, cell in zip(rows, (header, *cells), strict=True)]


def count_gpus(count: int, vram_mb: int) -> str:
    """Return how many GPUs a job has or wants, and its part of each in MiB; 0 for whole GPUs."""
    return f"{count} ({vram_mb} MiB)" if vram_mb else str(count)


def time_left(moment: float | None, now: float) -> str:
    """Return the time until a moment, - for None."""
    return "-" if moment is None else format_seconds(max(0.0, moment - now))


def _idle(job: RunningJob, now: float) -> str:
    is_preemptible = job.preemptible_at is not None and now >= job.preemptible_at
    if job.idle_since is None:
        return "preemptible" if is_preemptible else "-"
    return f"{format_seconds(max(0.0, now - job.idle_since))}{', preemptible' if is_preemptible else ''}"


def _running_row(job: RunningJob, now: float) -> tuple[str, ...]:
    had = format_seconds(max(0.0, now - job.since))
    gpus, numbers = count_gpus(len(job.gpus), job.vram_mb), ",".join(map(str, job.gpus))
    return name_person(job.person), printable(job.name), gpus, numbers, _process(job), had


def _process(job: RunningJob) -> str:
    """Return the containers that run in a job, or else its process."""
    containers = ",".join(printable(each[:SHORT_ID]) for each in job.containers)
    return containers or ("-" if job.pid is None else str(job.pid))


def name_person(uid: int) -> str:
    """Return the name of a user for a terminal."""
    return printable(name_of_person(uid))


def describe_grant(numbers: Sequence[int], seconds: float | None) -> str:
    """Return which GPUs a job got, and after how long if it had to wait."""
    *first, last = map(str, numbers)
    gpus = f"GPUs {', '.join(first)} and {last}" if first else f"GPU {last}"
    return gpus if seconds is None else f"{gpus} after {format_seconds(seconds)}"
