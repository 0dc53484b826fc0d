"""A place in the line: a ticket, and the client that waits for it, while that is connected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from amd_gpu_tracker.broker.asked import Asked
from amd_gpu_tracker.broker.ending import GRACE_SECONDS
from amd_gpu_tracker.broker.order import Waiter, as_bits
from amd_gpu_tracker.broker.peer import Peer
from amd_gpu_tracker.broker.people import ROOT, Permission
from amd_gpu_tracker.broker.protocol import Answer
from amd_gpu_tracker.waiting.ticket import Ticket
from amdgpu_discovery.choices.rules import NO_RULES, ChoiceRules


class Client(Protocol):
    """What answers go to."""

    peer: Peer
    is_lost: bool

    def is_gone(self) -> bool:
        """Return whether nobody is there any more to whom something could be given."""

    def say(self, answer: Answer) -> None:
        """Send an answer that is not the last."""

    def finish(self, answer: Answer) -> None:
        """Send the last answer."""

    def pass_on(self) -> tuple[int, bytes]:
        """Leave the last answer to another process."""


# How long a place is kept free for a client that lost its connection, before others go first.
ABSENCE_SECONDS = 3.0


class Place:
    """One who waits."""

    def __init__(self, ticket: Ticket, job: str, now: Callable[[], float]) -> None:
        """Wait with a ticket for the GPUs of a job; `now` is a clock."""
        self._now = now
        self.ticket = ticket
        self.job = job
        # Known where its client is connected.
        self.client: Client | None = None
        self.rules: ChoiceRules = NO_RULES
        self.request = ""
        self.permission = ROOT
        # Whether it held up nobody when it was looked at last.
        self.is_passed_over = False
        # What can be done about it that there are no GPUs for it.
        self.hint = ""
        self.said = ""
        self.said_at = 0.0
        # When it has its GPUs at the latest, in seconds since boot, as it was told; None where that is not known.
        self.latest: float | None = None
        self.absent_since = self._now()
        self.waiter = Waiter(
            number=ticket.number,
            person=ticket.person,
            among=as_bits(ticket.among),
            count=ticket.count,
            is_spare=ticket.is_spare,
        )

    def connect(self, client: Client, request: str, asked: Asked) -> None:
        """Let a client wait here, for the first time or after it lost its connection."""
        self.client = client
        self.request = request
        self.rules = asked.rules
        self.waiter = self.waiter.replace(is_particular=asked.in_one_hive)
        self.allow(asked.permission)
        self.said = ""

    def allow(self, permission: Permission) -> None:
        """Let a job have what its person may have now."""
        self.permission = permission
        # What is ended has some time left after SIGTERM.
        self.waiter = self.waiter.replace(seconds=permission.seconds and permission.seconds + GRACE_SECONDS)

    def is_absent(self) -> bool:
        """Return whether its client is away for so long that it holds up nobody."""
        return self.client is None and self._now() > self.absent_since + ABSENCE_SECONDS
