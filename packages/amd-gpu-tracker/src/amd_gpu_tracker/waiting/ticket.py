"""A ticket: who waits for how many GPUs, and since when. Its number is its place in the queue."""

from __future__ import annotations

from amd_gpu_tracker.errors import WaitRefused
from amd_gpu_tracker.records.lease import MOST_GPUS, NEVER, ProcessId
from amdgpu_discovery.plain_json import dumps, loads
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container
    from typing import Any

VERSION = 2
LARGEST_TICKET = 4096
# As Docker names containers; a name is a part of the file's.
NAME_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
LONGEST_NAME = 64
LONGEST_REQUEST_SHOWN = 200
# Of nanoseconds since boot.
DIGITS = 20


class Ticket(Value):
    """A place in the queue.

    Attributes:
        number: Place in the order of all tickets, from when it was taken.
        name: Name of the job.
        request: What it asks for, cut off where it is long.
        count: How many GPUs that is.
        among: Numbers of the GPUs that fit it; it is ahead only of jobs that want one of them.
        since: When it was taken, in seconds since 1970 (UTC).
        waiter: The process that waits.
        boot_id: The kernel's name for the boot in which it was taken.
        namespace: The pid namespace in which the process ids are meant.
        owner: The user whose process waits; names belong to a user.
        person: Whose job it is: the owner, or who became root by sudo.
        is_spare: It wants GPUs only as long as no other job does.
        latest: When it has its GPUs at the latest, as it was told last, in seconds since 1970; None where that is not
            known. It stands in no ticket.
    """

    number: int
    name: str
    request: str
    count: int
    among: tuple[int, ...]
    since: float
    waiter: ProcessId
    boot_id: str
    namespace: str
    owner: int = 0
    person: int = 0
    is_spare: bool = False
    latest: float | None = None

    @property
    def stem(self) -> str:
        """Return how the names of its files begin."""
        return f"{self.number:0{DIGITS}d}-{self.name}"

    def holds_up(self, among: Container[int]) -> bool:
        """Return whether it wants one of these GPUs: who came later and wants one too stands behind it."""
        return any(number in among for number in self.among)


def require_name(name: str) -> None:
    """Raise WaitRefused where a job cannot have this name."""
    if not (0 < len(name) <= LONGEST_NAME and NAME_LETTERS.issuperset(name) and name[0] not in "-."):
        letters = "letters, digits, '_', '.' and '-', and begin with a letter, a digit or '_'"
        raise WaitRefused(
            f"{name[:LONGEST_NAME]!r} is not a name for a job", hint=f"use up to {LONGEST_NAME} {letters}"
        )


def parse_stem(stem: str) -> tuple[int, str] | None:
    """Return number and name of a ticket from the name of its file, None if it is not one."""
    digits, _, name = stem.partition("-")
    if len(digits) != DIGITS or not (digits.isascii() and digits.isdecimal()) or not name:
        return None
    return int(digits), name


def format_ticket(ticket: Ticket) -> bytes:
    """Return a ticket as the content of its file; number and name are in the file's name."""
    fields = {**ticket.as_dict(), "waiter": ticket.waiter.as_dict(), "request": ticket.request[:LONGEST_REQUEST_SHOWN]}
    for name in ("number", "name", "latest", *(() if ticket.is_spare else ("is_spare",))):
        del fields[name]
    return dumps({"version": VERSION, **fields}) + b"\n"


def parse_ticket(number: int, name: str, content: bytes) -> Ticket | None:
    """Return what the content of a ticket's file says, None where it is not what `format_ticket` wrote."""
    try:
        fields: dict[str, Any] = loads(content)
        if fields.pop("version") != VERSION:
            return None
        ticket = Ticket.from_json({**fields, "number": number, "name": name}, {"ProcessId": ProcessId})
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return None
    is_sound = ticket.waiter.is_possible and all(0 <= number < MOST_GPUS for number in ticket.among)
    return ticket if is_sound and 0 <= ticket.since < NEVER and 0 < ticket.count < NEVER else None
