"""The queue: give GPUs to waiting jobs whenever something changes, and notify the others of what they wait for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress

from amd_gpu_sharing.broker.jobs.journal import Journal
from amd_gpu_sharing.broker.queue.grants import Grants
from amd_gpu_sharing.broker.queue.lease_view import LeaseView
from amd_gpu_sharing.broker.queue.order import left_for, serve, sort_tickets
from amd_gpu_sharing.broker.queue.place import NOTICE_SECONDS, Place
from amd_gpu_sharing.broker.queue.recent_use import RecentUse
from amd_gpu_sharing.broker.queue.scopes import Scopes
from amd_gpu_sharing.broker.requests.connection import Connection
from amd_gpu_sharing.broker.requests.demand import Demand
from amd_gpu_sharing.broker.requests.peer import has_gone
from amd_gpu_sharing.broker.requests.protocol import Answer, refusal
from amd_gpu_sharing.tickets import Ticket, Tickets
from amd_gpu_tracker.book.lease import boot_offset
from amd_gpu_tracker.claims.claim import Book
from amd_gpu_tracker.errors import GpusRefused, LockTimeout, WaitOver, WaitRefused
from amdgpu_discovery.errors import FileError, ToolkitError

MOST_WAITING = 20_000
MOST_WAITING_OF_ONE = 1_000
# How often to look for changes without an event: a waiting job that continues after Ctrl-Z, or the end of a user's
# container or of a program without a reservation.
QUEUE_POLL_SECONDS = 5.0


class Queue:
    """All waiting jobs of one host."""

    def __init__(self, book: Book, grants: Grants, scopes: Scopes, recent_use: RecentUse, *, log: Journal) -> None:
        self._processes, self._now = book.processes, book.processes.now
        self._grants = grants
        self._scopes = scopes
        self._recent_use = recent_use
        self._log = log
        self._tickets = Tickets(book.state, book.processes)
        self._tickets.sweep()
        found = self._tickets.waiting()
        self._places = {each.number: Place(each, Demand.of_ticket(each), self._now, None) for each in found}
        self._order = list(self._places.values())
        # When a job last left the queue. Clients that got their last message earlier are out of date.
        self._changed_at = 0.0
        # The latest starts as written for lists, in seconds since 1970; None before the first time.
        self._written: dict[int, int] | None = None
        # Whether something matters whose change causes no event.
        self.must_poll = False

    def __len__(self) -> int:
        return len(self._places)

    def find(self, owner: int | None, name: str) -> list[Place]:
        """Return the places of jobs of this name, of one owner or, for None, of all."""
        named = (each for each in self._places.values() if each.demand.name == name)
        return [each for each in named if owner in (None, each.demand.owner)]

    def new_place(self, client: Connection, demand: Demand) -> Place:
        """Return a new last place, which is not in the queue yet; WaitRefused."""
        owner = demand.owner
        own = sum(each.demand.owner == owner for each in self._places.values())
        if len(self) >= MOST_WAITING or (owner and own >= MOST_WAITING_OF_ONE):
            raise WaitRefused("too many jobs are already waiting", hint="try again later")
        number = max(round(self._now() * 1e9), max(self._places, default=0) + 1)
        here = self._processes
        ticket = Ticket(
            **demand.in_ticket(), number=number, since=time.time(), boot_id=here.boot_id, namespace=here.namespace
        )
        return Place(ticket, demand, self._now, client)

    def add(self, place: Place) -> None:
        """Add a job to the queue."""
        self._tickets.add(place.ticket)
        self._places[place.ticket.number] = place
        self._order.append(place)

    def remove_client(self, client: Connection) -> None:
        """Remove the places of a client that has gone."""
        for place in [place for place in self._places.values() if place.client is client]:
            self._end("gave up", place)

    def remove_job(self, owner: int, name: str) -> None:
        """Remove the place of a job that has its GPUs."""
        for place in self.find(owner, name):
            self._remove(place)

    def cancel(self, place: Place) -> None:
        """Remove a job from the queue, and tell its client."""
        self._end("cancelled", place, _removed(place))

    def put_first(self, place: Place) -> None:
        """Put a job before all others, once, also for a broker that comes after this one."""
        if not self._tickets.has(place.ticket):
            raise _removed(place)
        place.ticket = place.ticket.replace(put_first=round(self._now() * 1e9))
        self._tickets.add(place.ticket)
        place.last_message = ""
        self._changed_at = self._now()
        self._log_verdict("put first", place)

    def connected(self) -> list[tuple[Place, Connection]]:
        """Return the places whose clients are connected, with their clients."""
        return [(place, place.client) for place in self._places.values() if place.client]

    def refuse(self, place: Place, error: ToolkitError) -> None:
        """End the wait of a job that can no longer get GPUs."""
        self._end("refused", place, error, f": {error.message}")

    def drop_cancelled(self) -> None:
        """Remove jobs whose tickets are gone, and jobs that ended while they had no connection."""
        for place in list(self._places.values()):
            if not self._tickets.has(place.ticket):
                self.cancel(place)
            elif place.client is None and not self._tickets.is_visible(place.ticket):
                self._remove(place)

    def left_for(self, newcomer: Demand, view: LeaseView) -> list[int]:
        """Return the sets of GPUs (bits) from which a job that does not wait may be served, the best first."""
        waiters = {place: place.demand for place in self._waiting()}
        return left_for(newcomer, waiters, holds_up=lambda place: self._holds_up(place, view), outlook=view)

    def count_waiting(self, among: int, view: LeaseView) -> int:
        """Return how many jobs wait for one of these GPUs (bits) and hold up others."""
        waiters = (self._holds_up(place, view) for place in self._waiting() if place.demand.fitting & among)
        return sum(waiter is not None for waiter in waiters)

    def active_demands(self, view: LeaseView) -> dict[Place, Demand]:
        """Return the requests that hold up others and could be met, in the order in which they are served."""
        return {
            place: place.demand.replace(fitting=place.demand.fitting & ~place.withheld(view))
            for place in self._waiting()
            if place.client and not place.is_passed_over
        }

    def serve(self, view: LeaseView, order: str, refresh: Callable[[], LeaseView]) -> None:
        """Give GPUs to the jobs whose turn it is. `refresh` returns a new view after a grant."""
        self.must_poll = False
        self._order, view = self._serve(self._places, order, view, self._try, refresh)
        # The end of a drain, or the recovery of a sick GPU, causes no event.
        may_change = any(place.may_be_served(view) or place.withheld(view) for place in self._places.values())
        self.must_poll = self.must_poll or may_change

    def preview(self, place: Place, view: LeaseView, order: str, preview: Callable[[int], Answer]) -> Answer:
        """Return what a job at a new place would get now, by `preview`, or the message that it would get."""
        given: list[Answer] = []

        def try_now(other: Place, gpus: int) -> bool:
            # The other jobs were tried at the last change.
            if other is not place:
                return False
            try:
                given.append(preview(gpus))
            except (GpusRefused, LockTimeout) as error:
                place.note_refusal(error)
            return bool(given)

        places, _ = self._serve({**self._places, place.ticket.number: place}, order, view, try_now, lambda: view)
        if given:
            return given[0]
        return place.build_message(places[: places.index(place)], view)[0]

    def notify_clients(self, view: LeaseView) -> None:
        """Tell clients what they wait for: at once if they got no message yet, else after a while."""
        now = self._now()
        next_notice = self.next_notice()
        # If one message is due, send those with it that are due soon: one round instead of many.
        old = now - (NOTICE_SECONDS / 2 if next_notice is not None and now >= next_notice else NOTICE_SECONDS)
        before: list[Place] = []
        for place in self._order:
            if place.ticket.number not in self._places:
                continue
            if place.client and (not place.last_message or place.notified_at <= old):
                place.notify(before, view)
            before.append(place)

    def write_starts(self) -> None:
        """Write for lists when jobs have their GPUs at the latest, if that changed."""
        offset = boot_offset()
        known = ((number, place.latest) for number, place in self._places.items() if place.latest is not None)
        starts = {number: round(latest + offset) for number, latest in known}
        if starts != self._written:
            # A line in a list is not worth an error.
            with suppress(FileError):
                self._tickets.write_starts(starts)
            self._written = starts

    def next_notice(self) -> float | None:
        """Return when to notify a client that others left the queue, in seconds since boot; None if all know."""
        times = (place.notified_at for place in self._places.values() if place.client)
        notified_at = min((at for at in times if at < self._changed_at), default=None)
        return None if notified_at is None else notified_at + NOTICE_SECONDS

    def has_absent(self) -> bool:
        """Return whether a waiting job has no connection."""
        return any(place.client is None for place in self._places.values())

    def _serve(
        self,
        places: Mapping[int, Place],
        order: str,
        view: LeaseView,
        try_now: Callable[[Place, int], bool],
        refresh: Callable[[], LeaseView],
    ) -> tuple[list[Place], LeaseView]:
        """Try to give GPUs to these places; return them in their order, and the last view."""
        tickets = sort_tickets((place.ticket for place in places.values()), self._recent_use.by_person, order)
        demands = {places[ticket.number]: places[ticket.number].demand for ticket in tickets}
        for each in demands:
            # Jobs that others hold up are not checked below, and the value of the last round may be outdated.
            each.is_passed_over = False

        def try_one(place: Place, gpus: int) -> bool:
            nonlocal view
            is_over = try_now(place, gpus)
            view = refresh() if is_over else view
            return is_over

        serve(demands, holds_up=lambda place: self._holds_up(place, view), try_now=try_one, read_outlook=lambda: view)
        return list(demands), view

    def _waiting(self) -> Iterator[Place]:
        """Yield the places in the order in which they are served, without spare jobs, which hold up nobody."""
        for place in self._order:
            if place.ticket.number in self._places and not place.demand.is_spare:
                yield place

    def _holds_up(self, place: Place, view: LeaseView) -> Demand | None:
        """Return a waiting job with the GPUs that it may take; None if it holds up no other, and gets none now.

        Nobody waits for a job that is away or stopped, that exceeds its limit, or that waits for drained or sick GPUs.
        """
        demand = place.demand
        place.is_passed_over = self._is_inactive(place) or view.is_over(demand) or place.is_impossible(view)
        if place.is_passed_over:
            return None
        withheld = place.withheld(view)
        return demand.replace(fitting=demand.fitting & ~withheld) if withheld else demand

    def _try(self, place: Place, gpus: int) -> bool:
        """Give a job its GPUs, some of `gpus` (bits), or end its wait; False if it continues to wait."""
        client = place.client
        if client is None:
            return False
        if client.has_disconnected():
            self.refuse(place, has_gone())
            return True
        try:
            grant = self._grants.give(place.demand, gpus, is_waiting=True)
        except (GpusRefused, LockTimeout) as error:
            place.note_refusal(error)
            return False
        except ToolkitError as error:
            self.refuse(place, error)
            return True
        self._hand_over(place, client, grant)
        return True

    def _hand_over(self, place: Place, client: Connection, grant: Answer) -> None:
        job = place.demand.job
        if not self._remove(place) or client.has_disconnected():
            self._grants.revoke(job)
            client.finish(refusal(_removed(place)))
            return
        if answer := self._scopes.hand_over(client, job, grant):
            client.finish(answer)
        if client.is_undelivered:
            # The client gave up at this moment, but its process may still run.
            self._grants.revoke(job)
            return
        verdict = "reserved" if place.demand.reserved_seconds else "granted"
        self._log_verdict(verdict, place, f": GPUs {list(grant.numbers)}", gpus=grant.numbers)

    def _log_verdict(self, verdict: str, place: Place, more: str = "", *, gpus: Iterable[int] = ()) -> None:
        ticket = place.ticket
        self._log(verdict, f"{place.title}{more}", job=ticket.name, user=ticket.person, gpus=gpus)

    def _end(self, verdict: str, place: Place, error: ToolkitError | None = None, more: str = "") -> None:
        """End the wait of a job, and tell its client why, if it is connected."""
        self._remove(place)
        if error and place.client:
            place.client.finish(refusal(error))
        self._log_verdict(verdict, place, more)

    def _remove(self, place: Place) -> bool:
        self._places.pop(place.ticket.number, None)
        self._changed_at = self._now()
        return self._tickets.drop(place.ticket)

    def _is_inactive(self, place: Place) -> bool:
        if place.is_absent():
            return True
        is_stopped = self._tickets.is_stopped(place.ticket)
        self.must_poll = self.must_poll or is_stopped
        return is_stopped


def _removed(place: Place) -> WaitOver:
    return WaitOver(f"the job {place.demand.name} was removed from the queue")
