"""Lists of the jobs that have GPUs, and of those that wait, as tables and as JSON."""

from __future__ import annotations

import os
import time

from amd_gpu_tracker.times import format_seconds
from amd_gpu_tracker.watch.show.jobs import EMPTY_QUEUE, name_person, running_rows, time_left, with_column
from amdgpu_discovery.command_line.listing import format_columns, to_json
from amdgpu_discovery.command_line.stderr import print_note
from amdgpu_discovery.plain_text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from amd_gpu_sharing.tickets import Ticket
    from amd_gpu_tracker import RunningJob
    from amdgpu_discovery.host import Host

STARTS = "Starts within"
WAITING = ("Place", "Person", "Name", "GPUs", "Request", "Waiting for", "Process")


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
    from amd_gpu_sharing.shared_jobs import SharedJobs
    from amd_gpu_tracker import Tracker

    for each in SharedJobs(Tracker(host)).ended_by_restart():
        if of_everybody or each.person == os.geteuid():
            whose = f" of {name_person(each.person)}" if each.person != os.geteuid() else ""
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


def waiting_rows(tickets: Sequence[Ticket], now: float) -> list[tuple[str, ...]]:
    """Return the header and the waiting jobs; with a column for the latest time of their start if any is known."""
    rows = [WAITING, *(_waiting_row(place, ticket, now) for place, ticket in enumerate(tickets, 1))]
    return with_column(rows, STARTS, [time_left(ticket.latest, now) for ticket in tickets])


def _waiting_row(place: int, ticket: Ticket, now: float) -> tuple[str, ...]:
    waited = format_seconds(max(0.0, now - ticket.since))
    person = name_person(ticket.person)
    return str(place), person, ticket.name, str(ticket.count), printable(ticket.request), waited, str(ticket.waiter.pid)
