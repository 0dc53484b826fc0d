"""What amd-gpu-sharing does for the tracker, which finds it by this name where it is installed."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from amd_gpu_sharing.tickets import Ticket, Tickets
    from amd_gpu_tracker.claims.claim import Book
    from amd_gpu_tracker.claims.handover import Reservation
    from amdgpu_discovery.host import Host


def wait_in_line(book: Book, *words: Any, **options: Any) -> Reservation:
    """Reserve GPUs when it is a job's turn; arguments and errors as those of `broker.wait.wait_in_line`."""
    # Programs that only list jobs do not need it.
    from amd_gpu_sharing.broker.wait import wait_in_line as wait

    return wait(book, *words, **options)


def find_waiting(book: Book) -> list[Ticket]:
    """Return the tickets of waiting jobs, in the order in which they came; before them, those that root put first."""
    return [ticket for each in _tickets(book) for ticket in each.with_starts()]


def cancel(book: Book, name: str) -> bool:
    """Remove the job `name` from the queue; False if no such job waits. NotPermitted."""
    return any(each.drop(ticket) for each in _tickets(book) for ticket in each.named(name))


def find_wants(book: Book) -> list[Collection[int]]:
    """Return the numbers of the GPUs that each waiting job wants, except stopped ones, which hold up no other."""
    return [ticket.among for each in _tickets(book) for ticket in each.waiting() if not each.is_stopped(ticket)]


def describe_failure(host: Host) -> str:
    """Return a sentence if a host has rules for people and the service has failed, else ""."""
    from amd_device_spec.settings import read_settings

    if not read_settings(host).users:
        return ""
    from amd_gpu_sharing.failure import FAILED, RESTART, has_failed

    return f"{FAILED}: '{RESTART}' starts it again" if has_failed(host) else ""


def give_back(host: Host) -> bool:
    """Allow the groups of the nodes to open them again; False if they could already."""
    from amd_gpu_sharing.node_access.nodes import give_back as give

    return give(host)


def _tickets(book: Book) -> list[Tickets]:
    # Imported here: whether the service has failed does not depend on it.
    from amd_gpu_sharing.tickets import all_tickets
    from amd_gpu_tracker.book.state import State

    return all_tickets((book.state, State(book.state.host)), book.processes)
