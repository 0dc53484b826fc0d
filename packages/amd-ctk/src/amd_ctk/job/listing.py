"""Lists of the jobs that have GPUs, and of those that wait, as tables and as JSON."""

from __future__ import annotations

import os
import time

from amd_ctk.listing import format_columns, to_json
from amd_ctk.stderr import print_note
from amd_gpu_tracker.times import format_seconds
from amdgpu_discovery.people import name_of_person
from amdgpu_discovery.plain_text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from amd_gpu_tracker import RunningJob, Ticket
    from amdgpu_discovery.host import Host

RUNNING = ("Person", "Name", "GPUs", "Numbers", "Process", "For")
# The length of a container id in lists of Docker and Podman.
SHORT_ID = 12
ENDS, IDLE, STARTS = "Ends in", "Idle for", "Starts within"
WAITING = ("Place", "Person", "Name", "GPUs", "Request", "Waiting for", "Process")
EMPTY_QUEUE = "No job waits for GPUs"


def print_queue(host: Host, *, as_json: bool = False) -> None:
    """Print the jobs that have GPUs on a host, and those that wait."""
    from amd_gpu_tracker import Tracker

    tracker = Tracker(host)
    tickets, running = tracker.waiting(), tracker.jobs()
    print(format_json(tickets, running) if as_json else format_queue(tickets, running, time.time()))
    for sentence in () if as_json else ended_by_restart(host, of_everybody=os.geteuid() == 0):
        print_note(sentence)


def ended_by_restart(host: Host, *, of_everybody: bool = False) -> Iterator[str]:
    """Yield a sentence for each reservation, of the caller or of all users, that a restart of this machine ended."""
    from amd_gpu_tracker import Tracker

    for each in Tracker(host).shared_jobs.ended_by_restart():
        if of_everybody or each.person == os.geteuid():
            whose = f" of {_person(each.person)}" if each.person != os.geteuid() else ""
            yield f"The restart of this machine ended the reservation {printable(each.name)}{whose}"


def format_queue(tickets: Sequence[Ticket], running: Sequence[RunningJob], now: float) -> str:
    """Return the jobs that have GPUs, if there are any, and below them those that wait."""
    parts = [format_columns(running_rows(running, now))] if running else []
    return "\n\n".join([*parts, format_columns(waiting_rows(tickets, now)) if tickets else EMPTY_QUEUE])


def format_json(tickets: Sequence[Ticket], running: Sequence[RunningJob]) -> str:
    """Return everything as JSON."""
    jobs = [
        {
            "place": place,
            "name": ticket.name,
            "count": ticket.count,
            "request": ticket.request,
            "since": ticket.since,
            "pid": ticket.waiter.pid,
            "person": ticket.person,
            "latest": ticket.latest,
        }
        for place, ticket in enumerate(tickets, 1)
    ]
    return to_json({"jobs": jobs, "running": [job.as_dict() for job in running]})


def running_rows(running: Sequence[RunningJob], now: float) -> list[tuple[str, ...]]:
    """Return the header and the jobs that have GPUs; with columns for their end and idle time if any has these."""
    rows = [RUNNING, *(_running_row(job, now) for job in running)]
    rows = _with_column(rows, ENDS, [_left(job.until, now) for job in running])
    return _with_column(rows, IDLE, [_idle(job, now) for job in running])


def waiting_rows(tickets: Sequence[Ticket], now: float) -> list[tuple[str, ...]]:
    """Return the header and the waiting jobs; with a column for the latest time of their start if any is known."""
    rows = [WAITING, *(_waiting_row(place, ticket, now) for place, ticket in enumerate(tickets, 1))]
    return _with_column(rows, STARTS, [_left(ticket.latest, now) for ticket in tickets])


def _with_column(rows: list[tuple[str, ...]], header: str, cells: Sequence[str]) -> list[tuple[str, ...]]:
    """Return rows with one more column, unless all its cells are empty."""
    if set(cells) <= {"-"}:
        return rows
    return [(*row, cell) for row, cell in zip(rows, (header, *cells), strict=True)]


def _left(moment: float | None, now: float) -> str:
    return "-" if moment is None else format_seconds(max(0.0, moment - now))


def _idle(job: RunningJob, now: float) -> str:
    is_preemptible = job.preemptible_at is not None and now >= job.preemptible_at
    if job.idle_since is None:
        return "preemptible" if is_preemptible else "-"
    return f"{format_seconds(max(0.0, now - job.idle_since))}{', preemptible' if is_preemptible else ''}"


def _running_row(job: RunningJob, now: float) -> tuple[str, ...]:
    had = format_seconds(max(0.0, now - job.since))
    numbers = ",".join(map(str, job.gpus))
    return _person(job.person), printable(job.name), str(len(job.gpus)), numbers, _process(job), had


def _process(job: RunningJob) -> str:
    """Return the containers that run in a job, or else its process."""
    containers = ",".join(printable(each[:SHORT_ID]) for each in job.containers)
    return containers or ("-" if job.pid is None else str(job.pid))


def _person(uid: int) -> str:
    return printable(name_of_person(uid))


def _waiting_row(place: int, ticket: Ticket, now: float) -> tuple[str, ...]:
    waited = format_seconds(max(0.0, now - ticket.since))
    person = _person(ticket.person)
    return str(place), person, ticket.name, str(ticket.count), printable(ticket.request), waited, str(ticket.waiter.pid)
