"""How the queue is shown: a table, and JSON."""

from __future__ import annotations

import time

from amd_gpu_tracker.records.plain_text import printable
from amd_gpu_tracker.waiting.sentences import format_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amd_gpu_tracker import Ticket
    from amdgpu_discovery.host import Host

HEADER = ("Place", "Name", "GPUs", "Request", "Waiting for", "Process")


def print_queue(host: Host, *, as_json: bool = False) -> None:
    """Print the jobs that wait on a host."""
    from amd_gpu_tracker.tracker import Tracker

    tickets = Tracker(host).waiting()
    print(format_json(tickets) if as_json else format_queue(tickets, time.time()))


def format_queue(tickets: Sequence[Ticket], now: float) -> str:
    """Return the table of jobs that wait, in their order."""
    if not tickets:
        return "No job waits for GPUs"
    rows = [HEADER, *(_row(place, ticket, now) for place, ticket in enumerate(tickets, 1))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines)


def format_json(tickets: Sequence[Ticket]) -> str:
    """Return everything as JSON."""
    import json

    jobs = [
        {
            "place": place,
            "name": ticket.name,
            "count": ticket.count,
            "request": ticket.request,
            "since": ticket.since,
            "pid": ticket.waiter.pid,
        }
        for place, ticket in enumerate(tickets, 1)
    ]
    return json.dumps({"jobs": jobs}, indent=2)


def _row(place: int, ticket: Ticket, now: float) -> tuple[str, ...]:
    waited = format_seconds(max(0.0, now - ticket.since))
    return str(place), ticket.name, str(ticket.count), printable(ticket.request), waited, str(ticket.waiter.pid)
