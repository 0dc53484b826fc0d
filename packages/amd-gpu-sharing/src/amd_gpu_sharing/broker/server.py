"""The broker's loop: it waits only in `poll`, and users take turns."""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress

from amd_gpu_sharing.broker.handler import Handler
from amd_gpu_sharing.broker.queue.queue import QUEUE_POLL_SECONDS
from amd_gpu_sharing.broker.requests.client import is_listening
from amd_gpu_sharing.broker.requests.connection import Connection, FairTurns, has_hung_up
from amd_gpu_sharing.broker.requests.peer import Subordinates, find_peer, find_uid, no_account
from amd_gpu_sharing.broker.requests.protocol import Answer, format_answer, refusal
from amd_gpu_sharing.broker.wakes import Wakes
from amd_gpu_sharing.tickets import Tickets
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.errors import WaitRefused
from amd_gpu_tracker.leases.processes import Processes
from amdgpu_discovery.errors import ToolkitError

SETTINGS_DIRECTORY = "/etc/amd-container-toolkit"
# Limits for accepting connections in one go. The kernel queues connections in order of arrival. If one user floods the
# socket, taking out many at once is the way to reach those of other users.
ACCEPT_BATCH = 1024
ACCEPT_SECONDS = 0.02
# For each user other than root, but never more than half of the descriptors; a waiting job needs two.
MOST_USER_CONNECTIONS = 1_100
DESCRIPTORS_PER_USER_CONNECTION = 4
# Kept free for files and processes; without them, the broker could serve no client.
SPARE_DESCRIPTORS = 64
# How long the broker stays when it is not needed.
IDLE_SECONDS = 60.0
# How long to pause accepting when no descriptor is left.
PAUSE_SECONDS = 0.2
SIGNAL_BYTES = 4096


class Server:
    """Keeps the connections, and decides when to look at the queue."""

    def __init__(
        self,
        listener: socket.socket,
        state: State,
        processes: Processes,
        handler: Handler,
        *,
        idle_seconds: float | None = IDLE_SECONDS,
        stands_in_for: str | None = None,
    ) -> None:
        """Serve clients of `listener`; end after `idle_seconds` without work, None for never.

        `stands_in_for` is None in the service. In a process that stands in for it, it is the service's socket: the
        process ends once the service listens there ("" for never), and stays only while jobs wait.
        """
        self._listener = listener
        self._state = state
        self._processes = processes
        self._now = processes.now
        self._handler = handler
        # Connections from which nothing was read yet; `_clients` are those whose peer is known.
        self._arrivals: FairTurns[socket.socket] = FairTurns()
        self._subordinates = Subordinates(state.host)
        self._clients: dict[int, Connection] = {}
        # The number of clients of each user.
        self._counts: dict[int, int] = {}
        self._wakes = Wakes()
        self._idle_seconds = idle_seconds
        self._stands_in_for = stands_in_for
        self._idle_since = self._now()
        self._accepts_at = 0.0
        self._is_over = False
        # Whether the last round failed.
        self._has_failed = False
        self._stop, stopping = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(stopping, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)

    def run(self) -> None:
        """Serve until there is no more work, or a signal. Waiting clients then reconnect and keep their places."""
        while not self._is_over:
            self._close_finished()
            if self._handler.is_changed:
                self._serve()
            if self._is_idle():
                return
            ready = self._poll()
            if self._stop in ready:
                # Every signal wakes the loop through this pipe, also the alarm of the lock's time limit.
                os.read(self._stop, SIGNAL_BYTES)
            if ready.intersection((*self._wakes.descriptors(), *self._handler.descriptors())):
                self._wakes.clear()
                self._handler.is_changed = True
            # Clients whose turn it is not are read in the next round.
            for client in _in_turn(client for descriptor, client in self._clients.items() if descriptor in ready):
                self._receive(client)
            if self._listener.fileno() in ready:
                self._accept()
            for connected in self._arrivals.take():
                self._add_client(connected)
        # Refuse waiting users who may no longer reserve GPUs. The other clients reconnect.
        self._serve()

    def _serve(self) -> None:
        if self._stands_in_for and is_listening(self._stands_in_for):
            self._is_over = True
            return
        self._wakes.watch(self._directories())
        try:
            self._handler.serve()
            self._has_failed = False
        except ToolkitError:
            # Clients that ask get the error of the tracker themselves. Look again after a while.
            self._has_failed = True
        self._handler.watch(self._wakes)

    def _directories(self) -> Iterator[str]:
        """Yield the directories to watch. A user's reservations depend on root's, so both are among them."""
        yield from (self._state.host.path(SETTINGS_DIRECTORY), os.path.dirname(self._state.policy_path))
        for state in (self._state, State(self._state.host)):
            yield from (state.leases_directory, Tickets(state, self._processes).directory)

    def _poll(self) -> set[int]:
        poll = select.poll()
        if self._now() >= self._accepts_at:
            poll.register(self._listener, select.POLLIN)
        for descriptor in (self._stop, *self._wakes.descriptors(), *self._handler.descriptors()):
            poll.register(descriptor, select.POLLIN)
        for descriptor, client in self._clients.items():
            poll.register(descriptor, select.POLLIN | (select.POLLOUT if client.has_more else 0))
        seconds = self._seconds_until_next()
        began = self._now()
        is_behind = bool(len(self._arrivals)) or any(client.is_closed for client in self._clients.values())
        patience = None if seconds is None else int(seconds * 1000) + 1
        if is_behind:
            patience = 0
        ready = {descriptor for descriptor, _ in poll.poll(patience)}
        if (not ready and not is_behind) or (seconds is not None and self._now() >= began + seconds):
            # An end, a check or a message to waiting clients is due, which a stream of requests must not delay.
            self._handler.is_changed = True
        return ready

    def _seconds_until_next(self) -> float | None:
        """Return the seconds until something is due; None if only events can bring work."""
        now = self._now()
        due = [client.deadline for client in self._clients.values() if client.deadline is not None]
        if self._accepts_at > now:
            due.append(self._accepts_at)
        next_due = self._handler.next_due(must_poll=self._has_failed or self._wakes.must_poll)
        if next_due is not None:
            due.append(max(next_due, now + QUEUE_POLL_SECONDS) if self._has_failed else next_due)
        if self._idle_seconds is not None and not self._is_needed():
            due.append(self._idle_since + self._idle_seconds)
        return max(0.0, min(due) - now) if due else None

    def _accept(self) -> None:
        end = self._now() + ACCEPT_SECONDS
        for _ in range(ACCEPT_BATCH):
            if self._now() >= end:
                return
            try:
                connected, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:
                # No descriptor is left, or the client hung up already.
                self._accepts_at = self._now() + PAUSE_SECONDS
                return
            connected.setblocking(False)
            self._await_turn(connected)

    def _await_turn(self, connected: socket.socket) -> None:
        """Queue a connection for its user's turn. Refuse users who have too many connections."""
        uid = find_uid(connected)
        if self._subordinates.has(uid):
            # A user has thousands of subordinate uids, and each would get its own turns.
            _reject(connected, refusal(no_account(uid)))
            return
        own = self._arrivals.count_of(uid) + self._counts.get(uid, 0) if uid else 0
        if self._is_full():
            _reject(connected, refusal(WaitRefused("too many jobs are already waiting", hint="try again later")))
        elif own >= min(MOST_USER_CONNECTIONS, _descriptors() // DESCRIPTORS_PER_USER_CONNECTION):
            _reject(connected, refusal(WaitRefused(f"user {uid} has {own} connections", hint="try again later")))
        else:
            self._arrivals.add(uid, connected)

    def _add_client(self, connected: socket.socket) -> None:
        """Identify the client and read its request. Do nothing for a client that has hung up."""
        if has_hung_up(connected):
            connected.close()
            return
        try:
            peer, pidfd = find_peer(connected, self._processes)
        except ToolkitError as error:
            _reject(connected, refusal(error))
            return
        except OSError:
            connected.close()
            return
        client = Connection(connected, peer, pidfd, self._now)
        self._clients[client.fileno()] = client
        self._counts[peer.uid] = self._counts.get(peer.uid, 0) + 1
        # The request has mostly arrived already.
        self._receive(client)

    def _is_full(self) -> bool:
        """Return whether no descriptors are left for one more client, which needs two: a socket and a pidfd."""
        used = 2 * (len(self._clients) + len(self._arrivals)) + len(self._wakes.descriptors()) + SPARE_DESCRIPTORS
        return _descriptors() < used + 2

    def _receive(self, client: Connection) -> None:
        try:
            request = client.read()
        except ToolkitError as error:
            client.finish(refusal(error))
            return
        if request is not None:
            self._handler.handle(client, request)
        if client.has_more:
            client.write()

    def _close_finished(self) -> None:
        now = self._now()
        for client in _in_turn(client for client in self._clients.values() if client.is_over(now)):
            del self._clients[client.fileno()]
            self._counts[client.peer.uid] -= 1
            self._handler.remove_client(client)
            client.close()

    def _is_needed(self) -> bool:
        is_asked = bool(self._clients or len(self._arrivals)) or self._handler.has_waiters
        if self._stands_in_for is not None:
            return is_asked
        return is_asked or self._handler.has_work

    def _is_idle(self) -> bool:
        if self._is_needed():
            self._idle_since = self._now()
        return self._idle_seconds is not None and self._now() >= self._idle_since + self._idle_seconds

    def _end(self, *_: object) -> None:
        self._is_over = True


def _in_turn(clients: Iterable[Connection]) -> Iterator[Connection]:
    """Yield the clients to handle in one round."""
    turns: FairTurns[Connection] = FairTurns()
    for client in clients:
        turns.add(client.peer.uid, client)
    return turns.take()


def _reject(connected: socket.socket, answer: Answer) -> None:
    with suppress(OSError):
        connected.send(format_answer(answer))
    connected.close()


def _descriptors() -> int:
    """Return how many descriptors this process may have."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if most == resource.RLIM_INFINITY else most
