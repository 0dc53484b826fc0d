"""Lists of the jobs that have GPUs, and of those that wait, as tables and as JSON."""

from __future__ import annotations

import os
import time

from amd_gpu_tracker.times import format_moment, format_seconds
from amd_gpu_tracker.watch.show.jobs import EMPTY_QUEUE, count_gpus, name_person, running_rows, time_left, with_column
from amdgpu_discovery.command_line.listing import format_columns, to_json
from amdgpu_discovery.command_line.stderr import print_note
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.untrusted.plain_text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from amd_gpu_sharing.tickets import Ticket
    from amd_gpu_tracker import RunningJob
    from amdgpu_discovery.host import Host

STARTS = "Starts within"
PLANNED = ("Person", "Name", "GPUs", "Numbers", "Begins", "Lasts")
WAITING = ("Place", "Person", "Name", "GPUs", "Request", "Waiting for", "Process")


def print_queue(host: Host, *, as_json: bool = False) -> None:
    """Print the jobs that have GPUs on a host, and those that wait."""
    from amd_gpu_tracker import Tracker

    tracker = Tracker(host)
    tickets, running = tracker.waiting(), tracker.jobs()
    planned = find_planned(host)
    if as_json:
        print(format_json(tickets, running, planned))
        return
    print(format_queue(tickets, running, time.time()))
    if planned:
        print(f"\n{format_columns(planned_rows(planned))}")
    for sentence in ended_by_restart(host, of_everybody=os.geteuid() == 0):
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


def find_planned(host: Host) -> list[dict[str, Any]]:
    """Return the reservations for later, as in JSON, the first to begin first."""
    from amd_gpu_sharing.broker.queue.plan_file import read_plans
    from amd_gpu_tracker.book.state import State

    plans = read_plans(State(host))
    numbers = {gpu.key: gpu.number for gpu in locate_gpus(host)} if plans else {}
    found = [
        {
            "name": plan.name,
            "person": plan.person,
            "gpus": sorted(numbers[key] for key in plan.gpus if key in numbers),
            "start": plan.start,
            "seconds": plan.seconds,
        }
        for plan in plans
    ]
    return sorted(found, key=lambda each: (each["start"], each["name"]))


def planned_rows(planned: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return the header and the reservations for later."""
    rows = [
        (
            name_person(each["person"]),
            printable(each["name"]),
            str(len(each["gpus"])),
            ",".join(map(str, each["gpus"])),
            format_moment(each["start"]),
            format_seconds(each["seconds"]),
        )
        for each in planned
    ]
    return [PLANNED, *rows]


def format_json(
    tickets: Sequence[Ticket], running: Sequence[RunningJob], planned: Sequence[dict[str, Any]] = ()
) -> str:
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
            "vram_mb": ticket.vram_mb,
        }
        for place, ticket in enumerate(tickets, 1)
    ]
    return to_json({"jobs": jobs, "running": [job.as_dict() for job in running], "planned": list(planned)})


def waiting_rows(tickets: Sequence[Ticket], now: float) -> list[tuple[str, ...]]:
    """Return the header and the waiting jobs; with a column for the latest time of their start if any is known."""
    rows = [WAITING, *(_waiting_row(place, ticket, now) for place, ticket in enumerate(tickets, 1))]
    return with_column(rows, STARTS, [time_left(ticket.latest, now) for ticket in tickets])


def _waiting_row(place: int, ticket: Ticket, now: float) -> tuple[str, ...]:
    waited = format_seconds(max(0.0, now - ticket.since))
    person, gpus = name_person(ticket.person), count_gpus(ticket.count, ticket.vram_mb)
    return str(place), person, ticket.name, gpus, printable(ticket.request), waited, str(ticket.waiter.pid)
