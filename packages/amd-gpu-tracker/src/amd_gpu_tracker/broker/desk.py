"""What becomes of a request: who may, what is given, who waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from amd_gpu_tracker.broker.asked import Asked, weigh
from amd_gpu_tracker.broker.child import Children
from amd_gpu_tracker.broker.ending import GRACE_SECONDS
from amd_gpu_tracker.broker.endings import Endings, is_ending
from amd_gpu_tracker.broker.grants import ENDING, Grants, JobGrant, job_id, name_of
from amd_gpu_tracker.broker.idle import Idle
from amd_gpu_tracker.broker.job_names import JobNames
from amd_gpu_tracker.broker.job_processes import find_container, owner_of_job
from amd_gpu_tracker.broker.journal import log_of
from amd_gpu_tracker.broker.keeping import end_now, inside, keep
from amd_gpu_tracker.broker.line import Line
from amd_gpu_tracker.broker.opened import Opened
from amd_gpu_tracker.broker.people import Permission, format_held
from amd_gpu_tracker.broker.place import Client, Place
from amd_gpu_tracker.broker.preempting import Idler, choose
from amd_gpu_tracker.broker.protocol import (
    CANCEL,
    DONE,
    END,
    KEEP,
    PREVIEW,
    RELEASE,
    RESERVE,
    RUN,
    Answer,
    Request,
    refusal,
)
from amd_gpu_tracker.broker.scopes import Scopes
from amd_gpu_tracker.broker.terms import Terms, permission_of, require_in_time, require_permission
from amd_gpu_tracker.broker.unrecorded import Unrecorded
from amd_gpu_tracker.broker.used import RecentUse
from amd_gpu_tracker.broker.view import View, read_view
from amd_gpu_tracker.claims.by_name import require_nobody_before
from amd_gpu_tracker.errors import ContainerRunning, GpusRefused, NotDone, NotPermitted, WaitRefused
from amd_gpu_tracker.history.files import settle
from amd_gpu_tracker.life.lease_scan import prune_leases
from amd_gpu_tracker.records.history import FOUND, PROGRAM
from amd_gpu_tracker.records.lease import BY_API
from amd_gpu_tracker.waiting.sentences import format_seconds
from amd_gpu_tracker.waiting.ticket import Ticket, require_name
from amdgpu_discovery.errors import ToolkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_gpu_tracker.broker.journal import Log
    from amd_gpu_tracker.broker.terms import FindTerms
    from amd_gpu_tracker.claims.claim import Book
    from amd_gpu_tracker.records.lease import Lease

MOST_WAITING = 20_000
MOST_WAITING_OF_ONE = 1_000


class Desk:
    """Where requests are decided. Files are the truth: what is kept here is read again at the next start."""

    def __init__(
        self,
        book: Book,
        find_terms: FindTerms,
        log: Log,
        *,
        grace: float = GRACE_SECONDS,
    ) -> None:
        """Decide on a host; what is ended has `grace` seconds between TERM and KILL."""
        state, processes = book.state, book.processes
        self._book = book
        self._state = state
        self._processes = processes
        self._find_terms = find_terms
        self._terms = Terms()
        self._log = log
        state.prepare()
        self._used = RecentUse(state, processes.now)
        self.opened = Opened(state.host)
        self._grants = Grants(book, self.opened)
        children = Children()
        self._endings = Endings(book, log, children, grace=grace)
        self._idle = Idle(book, log, children, looked_at=self._used.counted_before)
        self._scopes = Scopes(state.host, self.opened, log, children)
        self.line = Line(state, processes, self._grants, self._scopes, self._used, log=log)
        self._names = JobNames(state, self._has)
        self._view = View()
        self._unrecorded = Unrecorded(state, log)
        self._reconcile()
        # Whether those who wait have to be looked at.
        self.is_changed = True

    @property
    def view(self) -> View:
        """Return the leases as they were seen last."""
        return self._view

    @property
    def next_end(self) -> float | None:
        """Return when the next reservation or job ends, is warned or looked at, in seconds since boot."""
        times = (self._view.next_end, self._endings.next_time(self._view.leases), self._idle.next_time)
        return min((each for each in times if each is not None), default=None)

    @property
    def descriptors(self) -> list[int]:
        """Return what is readable when something has to be looked at."""
        return self._idle.descriptors

    def hear(self, client: Client, request: Request) -> None:
        """Answer a request, or let its client wait."""
        try:
            answer = self._answer(client, request)
        except ToolkitError as error:
            uid = client.peer.uid
            sentence = f"{request.verb} {request.name} of user {uid}: {error.message}"
            self._log("refused", sentence, job=request.name, user=uid)
            answer = refusal(error)
        if answer is not None:
            client.finish(answer)

    def lose(self, client: Client) -> None:
        """Forget a client whose connection ended."""
        self.line.lose(client)
        self.is_changed = True

    def look(self) -> View:
        """Read the leases again, and count what is used."""
        self._end_reservations()
        view = read_view(self._state, self._processes)
        # Where that fails, it is tried again: what ended is in the view of before.
        self._view = read_view(self._state, self._processes) if self._hand_down(self._view.leases, view) else view
        self.opened.follow(self._view.leases)
        self._used.count(self._view.holding)
        living = {lease.container_id for lease in self._view.reservations}
        given = self._grants.given
        if ended := sorted(given.keys() - living):
            # The history has the end that was seen, not the moment at which somebody looks.
            self._drop_ended(PROGRAM, [self._state.lease_path(("", job)) for job in ended])
        for job in ended:
            self._log("ended", job, job=name_of(job), user=owner_of_job(job), gpus=given[job])
        self._grants.given = self._view.given()
        return self._view

    def serve(self) -> None:
        """Look at everything again, give GPUs to those whose turn it is, and tell the others."""
        self.is_changed = False
        terms = self._read_terms()
        view, now = self.look(), self._processes.now()
        if self._idle.serve(view.leases, terms.idle, now):
            view = self.look()
        self._endings.serve(view.leases, now)
        self.line.drop_cancelled()
        if len(self.line):
            self.line.serve(view, terms.order, self.look)
            self._preempt(self._view, now)
            self.line.tell(self._view)
        self.line.write_starts()
        self._unrecorded.say()

    def _preempt(self, view: View, now: float) -> None:
        """End what is idle where that serves somebody who waits."""
        ripe = {
            each.container_id: each for each in view.leases if each.is_preemptible(now) and not is_ending(each, now)
        }
        ripe = dict(sorted(ripe.items(), key=lambda item: (not item[1].is_spare, item[1].preemptible)))
        if not ripe:
            return
        coming = [each for each in view.leases if is_ending(each, now)]
        idlers = [Idler(job=job, gpus=view.gpus_of(each, *inside(each, view.leases))) for job, each in ripe.items()]
        chosen = choose(self.line.wanted(view), view.free | view.gpus_of(*coming), idlers)
        # What is idle may be used since the last look, and then nothing is ended for who would need that.
        unsure = {number for job, number in chosen.items() if not (self._idle.is_fresh or ripe[job].is_spare)}
        if unsure:
            self._idle.hurry(now)
        chosen = {job: number for job, number in chosen.items() if number not in unsure}
        for job, number in chosen.items():
            self._idle.preempt(ripe[job], self.line.title(number), now)
            self.is_changed = True

    def _answer(self, client: Client, request: Request) -> Answer | None:
        require_name(request.name)
        if request.verb in (RUN, PREVIEW, RESERVE, END) and request.name.endswith(ENDING):
            raise WaitRefused(f"names that end in {ENDING} are of jobs that are being ended", hint="choose another")
        # Where the settings cannot be read, GPUs can be given back and no others had.
        self._read_terms(strict=request.verb in (RUN, PREVIEW, RESERVE, KEEP))
        request = self._with_written_names(client, request)
        if request.verb in (RUN, PREVIEW, RESERVE):
            return {RUN: self._run, PREVIEW: self._preview, RESERVE: self._reserve}[request.verb](client, request)
        owner = _owner(client, request)
        if request.verb == KEEP:
            return self._keep(client, request, owner)
        if request.verb == END:
            return self._end(client, request, owner)
        if request.verb == RELEASE:
            return self._release(job_id(client.peer.uid if owner is None else owner, request.name))
        return self._cancel(owner, request.name) if request.verb == CANCEL else None

    def _with_written_names(self, client: Client, request: Request) -> Request:
        """Return a request with the names that its jobs have in files."""
        uid = client.peer.uid
        written = self._names.hide(request, uid, uid or request.owner)
        if written.name != request.name:
            self._log("named", f"{written.name} is the job {request.name} of user {uid}", job=written.name, user=uid)
        return written

    def _has(self, owner: int, name: str) -> bool:
        """Return whether a user has a job or reservation of this name, or one that waits."""
        job = job_id(owner, name)
        path = self._state.lease_path(("", job))
        has_lease = self._state.read_lease(path) is not None
        return has_lease or bool(self.line.find(owner, name)) or any(each.job == job for each in self._view.leases)

    def _run(self, client: Client, request: Request) -> Answer | None:
        job = job_id(client.peer.uid, request.name)
        person = client.peer.person(request.behind)
        permission = permission_of(self._terms, client.peer, person, is_spare=bool(request.spare))
        if again := self._grants.give_again(job, client.peer.process):
            # A broker that was killed had given them already, and perhaps left the ticket.
            self.line.forget(client.peer.uid, request.name)
            self._hand_over(client, job, again)
            return None
        if client.is_gone():
            return None
        if request.reservation:
            self._run_inside(client, request, job, person)
            return None
        asked = weigh(self._state, self._terms, permission, request)
        give = partial(
            self._grants.give,
            *(job, request.gpus, client.peer.process),
            person=person,
            permission=permission,
            rules=asked.rules,
            is_spare=bool(request.spare),
        )
        grant = self._give_now(request, asked, person, give)
        if grant is None:
            place = self._find_place(client, request) or self._new_place(client, request, asked, person)
            place.connect(client, request.gpus, asked)
            # It is looked at with all others at once, and may have its GPUs without a word.
            self.is_changed = True
            return None
        self._say_granted(request, person, "", grant.numbers)
        self._hand_over(client, job, grant)
        return None

    def _preview(self, client: Client, request: Request) -> Answer:
        """Answer what `_run` would do now, and do nothing."""
        job, person = job_id(client.peer.uid, request.name), client.peer.person(request.behind)
        permission = permission_of(self._terms, client.peer, person, is_spare=bool(request.spare))
        self._grants.require_free_name(job, request.name)
        if request.reservation:
            grant = self._grants.preview_inside(job, _reservation_of(client, request), client.peer.process)
            return grant.answer().replace(kind=DONE)
        asked = weigh(self._state, self._terms, permission, request)
        give = partial(self._grants.preview, job, request.gpus, rules=asked.rules, seconds=permission.seconds)
        found: JobGrant | Answer | None = self._give_now(request, asked, person, give)
        if found is None:
            self._find_place(client, request)
            place = self._make_place(client, request, asked, person)
            place.connect(client, request.gpus, asked)
            found = self.line.foresee(place, self.look(), self._terms.order, give)
        return found if isinstance(found, Answer) else found.answer().replace(kind=DONE)

    def _say_granted(self, request: Request, person: int, where: str, numbers: Sequence[int]) -> None:
        sentence = f"job {request.name} of user {person}{where}: GPUs {list(numbers)}"
        self._log("granted", sentence, job=request.name, user=person, gpus=numbers)

    def _hand_over(self, client: Client, job: str, grant: JobGrant) -> None:
        self._scopes.hand_over(client, job, grant)
        self.is_changed = True

    def _run_inside(self, client: Client, request: Request, job: str, person: int) -> None:
        reservation = _reservation_of(client, request)
        grant = self._grants.give_inside(job, reservation, client.peer.process, person=person)
        self._say_granted(request, person, f", in {reservation}", grant.numbers)
        self._hand_over(client, job, grant)

    def _reserve(self, client: Client, request: Request) -> Answer:
        person = client.peer.person(request.behind)
        permission = permission_of(self._terms, client.peer, person)
        if request.seconds <= 0:
            raise WaitRefused("a reservation has no end", hint="say how long, as in --for=4h")
        asked = weigh(self._state, self._terms, permission, request)
        require_in_time(permission, request.seconds)
        self._require_turn(asked, person)
        job = job_id(client.peer.uid, request.name)
        numbers = self._grants.keep(
            *(job, request.gpus, request.seconds), person=person, permission=permission, rules=asked.rules
        )
        sentence = f"{request.name} of user {person}: GPUs {list(numbers)} for {request.seconds} s"
        self._log("reserved", sentence, job=request.name, user=person, gpus=numbers)
        self.is_changed = True
        return Answer(kind=DONE, numbers=numbers)

    def _keep(self, client: Client, request: Request, owner: int | None) -> Answer:
        most = require_permission(self._terms, client.peer).seconds
        job, seconds = keep(self._book, request.name, owner, request.seconds, most=most)
        ends = f"ends in {format_seconds(seconds)}" if seconds else "has no end"
        self._log("kept", f"{job} by user {client.peer.uid}: {ends}", job=name_of(job), user=client.peer.uid)
        self.is_changed = True
        return Answer(kind=DONE, seconds=round(seconds))

    def _end(self, client: Client, request: Request, owner: int | None) -> Answer:
        job = end_now(self._book, request.name, owner)
        self._endings.asked.add(job)
        uid = client.peer.uid
        self._log("to be ended", f"{job}, as user {uid} says", job=name_of(job), user=uid)
        self.is_changed = True
        return Answer(kind=DONE)

    def _release(self, job: str) -> Answer:
        gpus = self._grants.given.get(job, ())
        self._grants.release(job)
        self._log("released", job, job=name_of(job), user=owner_of_job(job), gpus=gpus)
        self.is_changed = True
        return Answer(kind=DONE)

    def _cancel(self, owner: int | None, name: str) -> Answer:
        places = self.line.find(owner, name)
        if not places:
            raise NotDone(f"no job {name} waits for GPUs", hint="see 'amd-ctk queue list'")
        if len(places) > 1:
            raise NotDone(f"{len(places)} users have a job {name} that waits", hint="say whose, with --user")
        self.line.cancel(places[0])
        self.is_changed = True
        return Answer(kind=DONE)

    def _find_place(self, client: Client, request: Request) -> Place | None:
        """Return the place of a client that was connected before; ContainerRunning where another has the name."""
        for place in self.line.find(client.peer.uid, request.name):
            if place.ticket.waiter != client.peer.process:
                raise ContainerRunning(f"a job {request.name} waits already", hint="give every job a name of its own")
            return place
        return None

    def _new_place(self, client: Client, request: Request, asked: Asked, person: int) -> Place:
        self._grants.require_free_name(job_id(client.peer.uid, request.name), request.name)
        place = self._make_place(client, request, asked, person)
        self.line.add(place)
        return place

    def _make_place(self, client: Client, request: Request, asked: Asked, person: int) -> Place:
        """Return a place behind all others that is in no line yet; WaitRefused."""
        owner = client.peer.uid
        if len(self.line) >= MOST_WAITING or (owner and self.line.count_of(owner) >= MOST_WAITING_OF_ONE):
            raise WaitRefused("too many jobs wait already", hint="try again later")
        ticket = Ticket(
            number=self.line.next_number(),
            name=request.name,
            request=request.gpus,
            count=asked.count,
            among=tuple(asked.among),
            since=time.time(),
            waiter=client.peer.process,
            boot_id=self._processes.boot_id,
            namespace=self._processes.namespace,
            owner=owner,
            person=person,
            is_spare=bool(request.spare),
        )
        return Place(ticket, job_id(owner, request.name), self._processes.now)

    def _give_now(self, request: Request, asked: Asked, person: int, give: Callable[[], JobGrant]) -> JobGrant | None:
        """Return what `give` gives, None for who has to wait in line; GpusRefused for who would not wait."""
        if request.wait and (asked.may_be_taken or self._is_over_limit(asked.permission, person, asked.count)):
            return None
        # What is shared is given at once, unless it is drained or sick.
        with suppress(*((GpusRefused,) if request.wait else ())):
            self._require_turn(asked, person)
            return give()
        return None

    def _is_over_limit(self, permission: Permission, person: int, count: int) -> bool:
        return bool(permission.gpus) and self.look().is_over(person, count, permission)

    def _require_turn(self, asked: Asked, person: int) -> None:
        """Raise GpusRefused where others wait for these GPUs, or a person has as many as allowed."""
        if self._is_over_limit(asked.permission, person, asked.count):
            held = format_held(asked.permission, self._view.held(person, asked.permission))
            raise GpusRefused(held, hint="'amd-ctk run --wait' waits in line")
        among = asked.among if asked.may_be_taken else ()
        if among and len(self.line):
            # A GPU may have been drained since, and a job that waits for it holds up nobody.
            self.look()
        require_nobody_before(self.line.waits_for(among, self._view), self._view.users_of(among))

    def _read_terms(self, *, strict: bool = False) -> Terms:
        """Return what the administrator says; where that cannot be read, what was said before, or ToolkitError."""
        before = self._terms
        try:
            self._terms = self._find_terms(self._state.host)
        except ToolkitError:
            if strict:
                raise
        self.opened.is_reserved = self._terms.is_reserved
        self._names.are_private = self._terms.has_private_names
        if self._terms.permissions != before.permissions:
            self._dismiss()
        return self._terms

    def _dismiss(self) -> None:
        """End the wait of those who may not reserve GPUs any more; others have another limit, perhaps."""
        for place, client in self.line.connected():
            try:
                permission = require_permission(self._terms, client.peer)
                if client.peer.uid and not place.waiter.is_spare:
                    place.allow(permission)
            except ToolkitError as error:
                self.line.end(place, client, error)

    def _hand_down(self, leases: Sequence[Lease], view: View) -> bool:
        """Let jobs go on in containers that their commands left detached; return whether there are any.

        Only where there may be one all processes are looked at: of a job with a limit, which the container keeps, of
        a spare one, or one that a user's own lease names.
        """
        living = {each.key for each in view.leases}
        named = {each.lease.reservation_digest for each in view.user_leases}
        ended = [each for each in leases if each.key not in living and BY_API in each.ways and not each.until]
        # Each of them, whatever becomes of another.
        went_on = [self._go_on(each) for each in ended if each.limit or each.is_spare or each.token_digest in named]
        return any(went_on)

    def _go_on(self, job: Lease) -> bool:
        container = find_container(job, self._processes)
        if container is None or not self._grants.hand_down(job, container):
            return False
        sentence = f"{job.container_id}, in a container, as process {container.pid}"
        log_of(self._log, job, self._state.host)("goes on", sentence)
        return True

    def _reconcile(self) -> None:
        """Drop what ended while no broker was there."""
        with suppress(ToolkitError):
            leases = [each for path in self._state.lease_paths() if (each := self._state.read_lease(path))]
            self._hand_down(leases, read_view(self._state, self._processes))
        with suppress(ToolkitError, OSError):
            settle(self._book)
        self._drop_ended(FOUND)

    def _drop_ended(self, how: str, paths: Sequence[str] = ()) -> None:
        """Remove those of these leases, or of all, whose holders have ended; `how` that is known is for the history."""
        with suppress(ToolkitError), self._book.locked():
            prune_leases(self._state, self._processes, paths or self._state.lease_paths(locked=True), how)

    def _end_reservations(self) -> None:
        """Drop the reservations whose time is over."""
        now = self._processes.now()
        for lease in self._view.leases:
            if lease.until and lease.until <= now:
                self._grants.drop_over(lease.container_id)


def _owner(client: Client, request: Request) -> int | None:
    """Return whose job is meant: the own, for root anybody's (None) or that of the user it names. NotPermitted."""
    if client.peer.uid:
        if request.owner not in (None, client.peer.uid):
            raise NotPermitted("only root may name another user", hint="run the command with sudo")
        return client.peer.uid
    return request.owner


def _reservation_of(client: Client, request: Request) -> str:
    """Return the id of the reservation in which a job is to run; WaitRefused for a spare one."""
    if request.spare:
        raise WaitRefused("a job in a reservation is not a spare job", hint="leave out --reservation or --preempt=now")
    owner = _owner(client, request)
    return job_id(client.peer.uid if owner is None else owner, request.reservation)
