"""A place in the line: a ticket, and the client that waits for it, while that is connected."""

from __future__ import annotations

from collections.abc import Callable

from amd_gpu_tracker.broker.asked import Asked
from amd_gpu_tracker.broker.connection import Connection
from amd_gpu_tracker.broker.ending import GRACE_SECONDS
from amd_gpu_tracker.broker.order import Waiter, as_bits
from amd_gpu_tracker.broker.people import Permission
from amd_gpu_tracker.waiting.ticket import Ticket

# How long a place is kept free for a client that lost its connection, before others go first.
ABSENCE_SECONDS = 3.0


class Place:
    """One who waits."""

    def __init__(
        self, ticket: Ticket, asked: Asked, now: Callable[[], float], client: Connection | None = None
    ) -> None:
        """Wait with a ticket for what was asked, also while its client is not connected; `now` is a clock."""
        self._now = now
        self.ticket = ticket
        self.absent_since = self._now()
        # Whether it held up no other job at the last look.
        self.is_passed_over = False
        # What can be done about it that there are no GPUs for it.
        self.hint = ""
        self.said_at = 0.0
        # When it has its GPUs at the latest, in seconds since boot, as it was told; None where that is not known.
        self.latest: float | None = None
        self.connect(client, asked)

    def connect(self, client: Connection | None, asked: Asked) -> None:
        """Let a client wait here, for the first time or after it lost its connection."""
        self.client = client
        self.said = ""
        self.asked = asked
        self.waiter = Waiter(
            number=self.ticket.number,
            person=asked.person,
            among=as_bits(asked.among),
            count=asked.count,
            is_spare=asked.is_spare,
            is_particular=asked.in_one_hive,
        )
        self.allow(asked.permission)

    def allow(self, permission: Permission) -> None:
        """Let a job have what its person may have now."""
        self.asked = self.asked.replace(permission=permission)
        # What is ended has some time left after SIGTERM.
        self.waiter = self.waiter.replace(seconds=permission.seconds and permission.seconds + GRACE_SECONDS)

    def is_absent(self) -> bool:
        """Return whether its client is away for so long that it holds up no other job."""
        return self.client is None and self._now() > self.absent_since + ABSENCE_SECONDS
