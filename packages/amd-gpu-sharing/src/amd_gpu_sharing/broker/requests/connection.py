"""The connection of one client. The server never waits for it: reads and writes do not block, and users take turns."""

from __future__ import annotations

import os
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from amd_gpu_sharing.broker.requests.peer import Peer, has_ended
from amd_gpu_sharing.broker.requests.protocol import (
    LARGEST_LINE,
    Answer,
    ProtocolError,
    Request,
    format_answer,
    parse_request,
)

# A client that leaves this much unread, which is many answers, loses its connection.
MOST_UNREAD = 64 * 1024
# Time limit for a client to send its line, and to read the last answer.
CLIENT_TIMEOUT_SECONDS = 10.0
Item = TypeVar("Item")
# Time for one user before the next one's turn. A request takes 5 to 20 milliseconds and is not interrupted.
TURN_SECONDS = 0.01


def has_hung_up(connected: socket.socket) -> bool:
    """Return whether the other end is closed, even if it sent something before."""
    poll = select.poll()
    poll.register(connected, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))


class Connection:
    """A client. `pidfd` is that of its process; `now` returns the time."""

    def __init__(self, connected: socket.socket, peer: Peer, pidfd: int, now: Callable[[], float]) -> None:
        self._socket = connected
        self._now = now
        self.peer = peer
        self.pidfd = pidfd
        self._incoming = b""
        self._outgoing = b""
        self.has_request = False
        # Whether the last answer is on its way, and whether the connection has ended.
        self.is_last = False
        self.is_closed = False
        # Whether the client had gone when an answer was sent.
        self.is_undelivered = False
        self.deadline: float | None = self._now() + CLIENT_TIMEOUT_SECONDS

    def fileno(self) -> int:
        """Return the descriptor of the socket."""
        return self._socket.fileno()

    def has_disconnected(self) -> bool:
        """Return whether the client has gone, so that it can get nothing."""
        return self.is_closed or has_ended(self.pidfd)

    def is_over(self, now: float) -> bool:
        """Return whether the connection is closed, or has been silent for too long."""
        return self.is_closed or (self.deadline is not None and now >= self.deadline)

    def read(self) -> Request | None:
        """Return the request once it is complete; None before, and if the client has gone. ProtocolError."""
        try:
            # Do not read a request if nobody is left to answer.
            more = b"" if not self.has_request and has_hung_up(self._socket) else self._socket.recv(LARGEST_LINE)
        except BlockingIOError:
            return None
        except OSError:
            more = b""
        # Each connection carries one request, so that no client can keep the server busy.
        if not more or self.has_request:
            self.is_closed = True
            return None
        self._incoming += more
        line, end, _ = self._incoming.partition(b"\n")
        if len(line) >= LARGEST_LINE:
            raise ProtocolError(f"the line is longer than {LARGEST_LINE} bytes")
        if not end:
            return None
        self.has_request, self._incoming, self.deadline = True, b"", None
        return parse_request(line)

    def send(self, answer: Answer) -> None:
        """Send an answer, as far as the socket takes it now; `write` sends the rest."""
        if self.is_closed:
            self.is_undelivered = True
        elif not self.is_last:
            self._outgoing += format_answer(answer)
            self.write()

    def finish(self, answer: Answer) -> None:
        """Send the last answer."""
        self.send(answer)
        self.is_last, self.deadline = True, self._now() + CLIENT_TIMEOUT_SECONDS
        self.is_closed = self.is_closed or not self._outgoing

    def pass_on(self) -> tuple[int, bytes]:
        """Let another process send the last answer; return the socket's descriptor and the bytes to send before it."""
        unsent, self._outgoing, self.is_closed = self._outgoing, b"", True
        return self.fileno(), unsent

    def write(self) -> None:
        """Send what is left, as far as the socket takes it now."""
        try:
            sent = self._socket.send(self._outgoing) if self._outgoing else 0
        except BlockingIOError:
            sent = 0
        except OSError:
            self.is_closed = self.is_undelivered = True
            return
        self._outgoing = self._outgoing[sent:]
        if len(self._outgoing) > MOST_UNREAD or (self.is_last and not self._outgoing):
            self.is_closed = True

    @property
    def has_more(self) -> bool:
        """Return whether something is left to send."""
        return bool(self._outgoing)

    def close(self) -> None:
        """Close the socket and the pidfd."""
        self._socket.close()
        os.close(self.pidfd)


class FairTurns(Generic[Item]):
    """A queue of items for each user, served in turns. `now` returns the time."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._queues: dict[int, deque[Item]] = {}
        self._now = now

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def count_of(self, uid: int) -> int:
        """Return the number of a user's items."""
        return len(self._queues.get(uid, ()))

    def add(self, uid: int, item: Item) -> None:
        """Add an item to the end of a user's queue."""
        self._queues.setdefault(uid, deque()).append(item)

    def take(self, seconds: float = TURN_SECONDS) -> Iterator[Item]:
        """Yield the items of one round: one of each user, and more until the user's `seconds` are spent."""
        for uid in list(self._queues):
            queue = self._queues[uid]
            end = self._now() + seconds
            while queue:
                yield queue.popleft()
                if self._now() >= end:
                    break
            if not queue:
                del self._queues[uid]
