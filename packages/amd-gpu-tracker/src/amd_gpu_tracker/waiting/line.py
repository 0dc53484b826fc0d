"""Wait in line for GPUs: a ticket, then the turn, then the GPUs. The one story of a waiter, top to bottom.

Who comes first is served first, also where a later one wants less: nobody is overtaken by one who wants one of the same
GPUs. So each waits for the nearest one before it that wants one of its GPUs; who has none before looks at GPUs.
"""

from __future__ import annotations

import os
import select
import time

from amd_gpu_tracker.errors import GpusRefused, LockTimeout, WaitOver
from amd_gpu_tracker.waiting.releases import Releases
from amd_gpu_tracker.waiting.sentences import format_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from amd_gpu_tracker.life.processes import Processes
    from amd_gpu_tracker.records.state import State
    from amd_gpu_tracker.waiting.queue import Place, Queue
    from amd_gpu_tracker.waiting.ticket import Ticket

    Got = TypeVar("Got")
    # Given the tickets before this one, and why there are no GPUs for it where it is its turn.
    Tell = Callable[[list[Ticket], GpusRefused | None], None]

# How often a waiter looks whether one before it was stopped.
LOOK_SECONDS = 5.0
# How often it is told what it waits for.
TELL_SECONDS = 60.0


class Line:
    """One waiter's way through the queue."""

    __slots__ = (
        *("_deadline", "_place", "_processes", "_queue", "_refusal", "_since", "_state"),
        *("_tell", "_told", "_told_at"),
    )

    def __init__(
        self, state: State, queue: Queue, place: Place, processes: Processes, *, timeout: float | None, tell: Tell
    ) -> None:
        self._state = state
        self._queue = queue
        self._place = place
        self._processes = processes
        self._since = time.monotonic()
        self._deadline = None if timeout is None else self._since + timeout
        self._tell = tell
        self._refusal: GpusRefused | None = None
        self._told: tuple[str, ...] | None = None
        self._told_at = 0.0

    def serve(self, try_now: Callable[[], Got], give_back: Callable[[Got], None]) -> Got:
        """Wait for the turn and return what `try_now` gets then; `give_back` takes it where the ticket is gone.

        WaitOver where the time is over or the ticket was taken away; any error of `try_now` but GpusRefused and
        LockTimeout.
        """
        try:
            self._wait_for_turn()
            found = self._wait_for_gpus(try_now)
        except BaseException:
            self._queue.leave(self._place)
            raise
        if not self._queue.leave(self._place):
            give_back(found)
            raise _cancelled(self._place)
        return found

    def _wait_for_turn(self) -> None:
        while (before := self._find_before()) is not None:
            pipe = self._queue.open_pipe(before.stem)
            if pipe is None:
                self._queue.drop(before.stem)
                continue
            try:
                self._say()
                poll = select.poll()
                # The end of who is before shows as an error of the pipe, for which nobody has to ask.
                poll.register(pipe, 0)
                poll.register(self._place.pipe, select.POLLIN)
                poll.poll(int(self._seconds_left(LOOK_SECONDS) * 1000) + 1)
            finally:
                os.close(pipe)
            self._require_place()

    def _wait_for_gpus(self, try_now: Callable[[], Got]) -> Got:
        with Releases(self._state, self._processes) as releases:
            while True:
                # What ends after this look ends the wait.
                releases.look()
                try:
                    return try_now()
                except (GpusRefused, LockTimeout) as error:
                    # Another process that keeps the lock must not cost a job the place for which it waited for hours.
                    self._refusal = error if isinstance(error, GpusRefused) else None
                    self._say()
                releases.wait((self._place.pipe,), self._seconds_left(TELL_SECONDS))
                self._require_place()
                self._wait_for_turn()

    def _find_before(self) -> Ticket | None:
        """Return the nearest waiter before this one; drop tickets that are over on the way."""
        own = self._place.ticket
        for stem in reversed([stem for stem in self._queue.stems() if stem < own.stem]):
            ticket = self._queue.read(stem)
            if ticket is None:
                self._queue.drop(stem)
            elif ticket.holds_up(own.among) and not self._queue.is_stopped(ticket):
                return ticket
        return None

    def _say(self) -> None:
        """Tell what is waited for, where that has changed, and not too often."""
        now = time.monotonic()
        stems = [stem for stem in self._queue.stems() if stem < self._place.ticket.stem]
        if tuple(stems) == self._told or (self._told is not None and now < self._told_at + TELL_SECONDS):
            return
        self._told, self._told_at = tuple(stems), now
        tickets = (ticket for stem in stems if (ticket := self._queue.read(stem)))
        self._tell([ticket for ticket in tickets if ticket.holds_up(self._place.ticket.among)], self._refusal)

    def _seconds_left(self, most: float) -> float:
        return most if self._deadline is None else max(0.0, min(most, self._deadline - time.monotonic()))

    def _require_place(self) -> None:
        if not self._queue.has(self._place.ticket):
            raise _cancelled(self._place)
        if self._deadline is not None and time.monotonic() >= self._deadline:
            waited = format_seconds(time.monotonic() - self._since)
            raise WaitOver(f"there was no GPU for {self._place.ticket.name} within {waited}")


def _cancelled(place: Place) -> WaitOver:
    return WaitOver(f"the job {place.ticket.name} was taken out of the queue")
