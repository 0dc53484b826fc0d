"""Decide on requests: who is allowed, who gets GPUs at once, and who waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from amd_gpu_sharing.broker.jobs.child import Children
from amd_gpu_sharing.broker.jobs.ending import GRACE_SECONDS
from amd_gpu_sharing.broker.jobs.idle_jobs import IdleJobs
from amd_gpu_sharing.broker.jobs.job_time import end_now, extend
from amd_gpu_sharing.broker.jobs.journal import Journal, Unrecorded
from amd_gpu_sharing.broker.jobs.leftovers import Leftovers
from amd_gpu_sharing.broker.queue.endings import Endings
from amd_gpu_sharing.broker.queue.grants import Grants
from amd_gpu_sharing.broker.queue.lease_view import LeaseView
from amd_gpu_sharing.broker.queue.order import choose_preempted
from amd_gpu_sharing.broker.queue.place import Place
from amd_gpu_sharing.broker.queue.planned import Plans, find_doubts, find_permission, refuse_reserved
from amd_gpu_sharing.broker.queue.queue import Queue
from amd_gpu_sharing.broker.queue.recent_use import RecentUse
from amd_gpu_sharing.broker.queue.scopes import Scopes
from amd_gpu_sharing.broker.queue.seen_leases import SeenLeases
from amd_gpu_sharing.broker.requests import people, protocol
from amd_gpu_sharing.broker.requests.connection import Connection
from amd_gpu_sharing.broker.requests.demand import Demand, require_within, resolve_demand
from amd_gpu_sharing.broker.requests.job_names import JobNames
from amd_gpu_sharing.broker.requests.protocol import DONE, FOR_GPUS, Answer, Request, refusal
from amd_gpu_sharing.node_access.users import NodeUsers
from amd_gpu_tracker.book.job_ids import job_id, name_of, owner_of, require_name
from amd_gpu_tracker.book.kinds import kind_of
from amd_gpu_tracker.book.lease import ENDING, boot_offset
from amd_gpu_tracker.claims.by_name import jobs_wait
from amd_gpu_tracker.claims.claim import Book
from amd_gpu_tracker.errors import ContainerRunning, GpusRefused, NotDone, NotPermitted, WaitRefused
from amd_gpu_tracker.times import format_moment, format_seconds
from amdgpu_discovery.errors import FileError, ToolkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    Given = TypeVar("Given")


class Handler:
    """Decides on requests. The files are the truth: a new broker reads from them again what this object knows."""

    def __init__(self, book: Book, find_terms: people.FindTerms, log: Journal, *, grace: float = GRACE_SECONDS) -> None:
        """Decide on the host of `book`; a job that has to end gets `grace` seconds between TERM and KILL."""
        self._book, self._state, self._processes = book, book.state, book.processes
        self._find_terms = find_terms
        self._terms = people.Terms()
        self._log = log
        self._state.prepare()
        self._recent_use = RecentUse(self._state, self._processes.now)
        self.node_users = NodeUsers(self._state.host)
        self._grants = Grants(book, self.node_users)
        children = Children()
        self._endings = Endings(book, log, children, grace=grace)
        self.idle = IdleJobs(book, log, children, checked_at=self._recent_use.counted_before)
        self._scopes = Scopes(self._state.host, self.node_users, log, children)
        self.queue = Queue(book, self._grants, self._scopes, self._recent_use, log=log)
        self._names = JobNames(self._state, self._has)
        self._unrecorded = Unrecorded(self._state, log)
        self._leftovers = Leftovers(book, log, children)
        self.plans = Plans(self._state, self._processes)
        self._leases = SeenLeases(
            *(book, self._grants, self.node_users, self._recent_use, self._leftovers), plans=self.plans
        )
        # Whether the next round has to look at the waiting jobs.
        self.is_changed = True

    @property
    def view(self) -> LeaseView:
        """Return the leases as they were seen last."""
        return self._leases.view

    @property
    def has_silent_ends(self) -> bool:
        """Return whether GPUs may become free without an event: those of users' own containers, and of pods."""
        return bool(self.view.user_leases or self.view.in_pods)

    @property
    def next_end(self) -> float | None:
        """Return when a reservation or job next ends, gets a warning or is looked at, in seconds since boot."""
        leases = self.view.leases
        own = (self._endings.next_time(leases), self.idle.next_time, self.plans.next_time())
        times = (*own, *(kind_of(each).lasts_until for each in leases))
        return min((each for each in times if each is not None), default=None)

    def handle(self, client: Connection, request: Request) -> None:
        """Answer a request, or let its client wait."""
        try:
            answer = self._answer(client, request)
            self.is_changed = self.is_changed or request.verb != protocol.PREVIEW
        except ToolkitError as error:
            uid = client.peer.uid
            sentence = f"{request.verb} {request.name} of user {uid}: {error.message}"
            self._log("refused", sentence, job=request.name, user=uid)
            answer = refusal(error)
        if answer is not None:
            client.finish(answer)

    def remove_client(self, client: Connection) -> None:
        """Forget a client whose connection ended."""
        self.queue.remove_client(client)
        self.is_changed = True

    def serve(self) -> None:
        """Look at everything again, give GPUs to jobs whose turn it is, and tell the others what they wait for."""
        self.is_changed = False
        terms = self._read_terms()
        view, now = self._leases.refresh(), self._processes.now()
        if self.idle.serve(view.leases, terms.idle, now):
            view = self._leases.refresh()
        self._endings.serve(view.leases, now)
        self.queue.drop_cancelled()
        due = self._begin_planned(terms)
        if len(self.queue):
            self.queue.serve(self.view, terms.order, self._leases.refresh)
        if len(self.queue) or due:
            self._preempt(self.view, now, first=due)
            self.queue.notify_clients(self.view)
        self.queue.write_starts()
        self._unrecorded.log_changes()

    def _begin_planned(self, terms: people.Terms) -> list[Demand]:
        """Begin the reservations whose time has come; return the requests of those whose GPUs others still have."""
        waiting = []
        for plan in list(self.plans.due()):
            permission = find_permission(plan, terms.permissions)
            demand = self.plans.demand_of(plan, permission, self.view) if permission else None
            if demand and self.view.is_over(demand):
                continue
            numbers = demand.among if demand else ()
            try:
                if demand:
                    self._grants.give(demand, demand.fitting, is_waiting=True)
            except ContainerRunning:
                # A broker that was killed had reserved the GPUs already, or the person has used the name.
                pass
            except ToolkitError:
                waiting += [demand] if demand else []
                continue
            # On a full disk, the next broker tries it again.
            with suppress(FileError):
                self.plans.remove(plan)
            sentence = f"{plan.name} of user {plan.person}, planned before: GPUs {list(numbers)}"
            self._log("reserved" if numbers else "missed", sentence, job=plan.name, user=plan.person, gpus=numbers)
            self._leases.refresh()
        return waiting

    def _preempt(self, view: LeaseView, now: float, first: Sequence[Demand]) -> None:
        """End idle jobs and reservations if that serves a waiting job, `first` these."""
        kinds = [kind_of(each) for each in view.leases]
        found = [each.lease for each in kinds if each.is_preemptible(now) and not each.is_ending(now)]
        if not found:
            return
        found.sort(key=lambda lease: (not lease.is_spare, lease.preemptible))
        ripe = {each.container_id: each for each in found}
        coming = [each.lease for each in kinds if each.is_ending(now)]
        idle = {job: view.gpus_of(each, *each.inside(view.leases)) for job, each in ripe.items()}
        waiters = [*first, *self.queue.active_demands(view)]
        chosen = choose_preempted(waiters, view.free | view.gpus_of(*coming), idle)
        # A job that was idle at the last check may use its GPUs by now. Check again before it ends for a waiting job.
        unsure = {number for job, number in chosen.items() if not (self.idle.is_fresh or ripe[job].is_spare)}
        if unsure:
            self.idle.check_now(now)
        chosen = {job: number for job, number in chosen.items() if number not in unsure}
        for job, number in chosen.items():
            self.idle.preempt(ripe[job], self.queue.title(number) if number else "a reservation", now)
            self.is_changed = True

    def _answer(self, client: Connection, request: Request) -> Answer | None:
        require_name(request.name)
        if request.verb in (*FOR_GPUS, protocol.END) and request.name.endswith(ENDING):
            raise WaitRefused(f"names that end in {ENDING} belong to jobs that are ending", hint="choose another")
        # Without readable settings, users can give GPUs back, but get none and extend nothing.
        self._read_terms(strict=request.verb in (*FOR_GPUS, protocol.KEEP))
        acts: dict[str, Callable[[Connection, Request], Answer | None]] = {
            protocol.RUN: self._run,
            protocol.PREVIEW: self._preview,
            protocol.RESERVE: self._reserve,
            protocol.RELEASE: self._release,
            protocol.CANCEL: self._cancel,
            protocol.KEEP: self._keep,
            protocol.END: self._end,
            protocol.FIRST: self._put_first,
        }
        return acts[request.verb](client, self._with_written_names(client, request))

    def _with_written_names(self, client: Connection, request: Request) -> Request:
        """Return a request with the names that its jobs have in files."""
        uid = client.peer.uid
        written = self._names.hide(request, uid, uid or request.owner)
        if written.name != request.name:
            self._log("named", f"{written.name} is the job {request.name} of user {uid}", job=written.name, user=uid)
        return written

    def _has(self, owner: int, name: str, person: int | None = None) -> bool:
        """Return whether a user has a job of this name, running or waiting; with `person`, one of that person."""
        job = job_id(owner, name)
        lease = self._state.read_lease(self._state.lease_path(("", job)))
        found = [each for each in (lease, *self.view.leases) if each and each.job == job]
        if person is not None:
            return any(each.person == person for each in found)
        return bool(found or self.queue.find(owner, name) or self.plans.find(owner, name))

    def _run(self, client: Connection, request: Request) -> Answer | None:
        peer, job = client.peer, job_id(client.peer.uid, request.name)
        permission = people.permission_of(self._terms, peer, request)
        if grant := self._grants.repeat_grant(job, peer.process):
            # A broker that was killed had given the GPUs already, and may have left the ticket.
            self.queue.remove_job(peer.uid, request.name)
            return self._scopes.hand_over(client, job, grant)
        if client.has_disconnected():
            return None
        if request.reservation:
            reservation, person = self._reservation_of(client, request), peer.person(request.behind) or 0
            grant = self._grants.give_inside(job, reservation, peer.process, person=person)
            self._log_granted(request.name, person, f", in {reservation}", grant.numbers)
            return self._scopes.hand_over(client, job, grant)
        demand = resolve_demand(self._book, self._terms, permission, peer, request)
        if now := self._give_now(demand, partial(self._grants.give, demand), waits=request.wait):
            self._log_granted(demand.name, demand.person, "", now.numbers)
            return self._scopes.hand_over(client, job, now)
        self._wait_in_line(client, demand)
        return None

    def _wait_in_line(self, client: Connection, demand: Demand) -> None:
        """Give a client its place. The next round looks at it with all others, and may give it GPUs at once."""
        if place := self._find_place(demand):
            place.connect(client, demand)
        else:
            self._grants.require_free_name(demand.job)
            self.queue.add(self.queue.new_place(client, demand))

    def _preview(self, client: Connection, request: Request) -> Answer:
        """Answer what `_run` would do now, and do nothing."""
        peer, job = client.peer, job_id(client.peer.uid, request.name)
        permission = people.permission_of(self._terms, peer, request)
        self._grants.require_free_name(job)
        if request.reservation:
            found = self._grants.preview_inside(job, self._reservation_of(client, request), peer.process)
            return found.replace(kind=DONE)
        demand = resolve_demand(self._book, self._terms, permission, peer, request)
        give = partial(self._grants.preview, demand)
        now = self._give_now(demand, give, waits=request.wait)
        if now is None:
            self._find_place(demand)
            place = self.queue.new_place(client, demand)
            now = self.queue.preview(place, self._leases.refresh(), self._terms.order, give)
        return now.replace(kind=DONE)

    def _log_granted(self, name: str, person: int, where: str, numbers: Sequence[int]) -> None:
        sentence = f"job {name} of user {person}{where}: GPUs {list(numbers)}"
        self._log("granted", sentence, job=name, user=person, gpus=numbers)

    def _reserve(self, client: Connection, request: Request) -> Answer | None:
        permission = people.permission_of(self._terms, client.peer, request)
        if request.seconds <= 0:
            raise WaitRefused("a reservation needs an end", hint="give its length, as in --for=4h")
        demand = resolve_demand(self._book, self._terms, permission, client.peer, request)
        people.require_in_time(permission, request.seconds, start=request.start)
        if request.start is not None:
            return self._reserve_later(demand.replace(reserved_seconds=request.seconds), request.start)
        if (place := self._find_place(demand)) and (done := self._grants.repeat_reservation(place.demand)):
            # A broker that was killed had reserved the GPUs already, and left the ticket.
            self.queue.remove_job(demand.owner, demand.name)
            return done
        # The jobs of a reservation get some more time at its end, and those before it wait for them.
        demand = demand.replace(reserved_seconds=request.seconds).allowed(permission)
        if not (done := self._give_now(demand, partial(self._grants.give, demand), waits=request.wait)):
            self._wait_in_line(client, demand)
            return None
        sentence = f"{demand.name} of user {demand.person}: GPUs {list(done.numbers)} for {request.seconds} s"
        self._log("reserved", sentence, job=demand.name, user=demand.person, gpus=done.numbers)
        return done

    def _reserve_later(self, demand: Demand, start: float) -> Answer:
        """Plan a reservation; the message of the answer is why it is not promised, "" if it is."""
        self._grants.require_free_name(demand.job)
        plan, numbers = self.plans.add(demand, start, self._leases.refresh())
        sentence = f"{plan.name} of user {plan.person}: GPUs {list(numbers)} from {format_moment(start)}"
        self._log("planned", sentence, job=plan.name, user=plan.person, gpus=numbers)
        doubts = find_doubts(numbers, start - boot_offset(), self.view)
        message = f"not promised: {', '.join(doubts.values())}" if doubts else ""
        return Answer(kind=DONE, numbers=numbers, seconds=plan.seconds, message=message)

    def _require_not_planned(self, job: str, seconds: int) -> None:
        """Raise NotPermitted if a reservation for later begins on a GPU of a job before it would end."""
        view, gpus = self._leases.refresh(), self._grants.gpus_by_job.get(job, ())
        end = view.now + seconds + GRACE_SECONDS
        if found := [number for number in gpus if view.planned.get(number, end) < end]:
            when = format_moment(view.planned[found[0]] + boot_offset())
            raise NotPermitted(f"GPU {found[0]} is reserved from {when}", hint="keep it for less")

    def _keep(self, client: Connection, request: Request) -> Answer:
        permission = people.require_permission(self._terms, client.peer)
        if request.seconds and client.peer.uid:
            self._require_not_planned(job_id(client.peer.uid, request.name), request.seconds)
        owner, most = _owner(client, request), permission.most_seconds(time.time())
        job, seconds = extend(self._book, request.name, owner, request.seconds, most=most, by=client.peer.uid)
        ends = f"ends in {format_seconds(seconds)}" if seconds else "has no end"
        self._log("kept", f"{job} by user {client.peer.uid}: {ends}", job=name_of(job), user=client.peer.uid)
        return Answer(kind=DONE, seconds=round(seconds))

    def _end(self, client: Connection, request: Request) -> Answer:
        uid = client.peer.uid
        job = end_now(self._book, request.name, _owner(client, request), by=uid)[0].job
        self._endings.ended_by_user.add(job)
        self._log("to be ended", f"{job}, as user {uid} requested", job=name_of(job), user=uid)
        return Answer(kind=DONE)

    def _release(self, client: Connection, request: Request) -> Answer:
        job = self._job_of(client, request, request.name, "name the owner with --user")
        gpus = self._grants.gpus_by_job.get(job, ())
        self._grants.release(job, by=client.peer.uid)
        self._log("released", job, job=name_of(job), user=owner_of(job), gpus=gpus)
        return Answer(kind=DONE)

    def _cancel(self, client: Connection, request: Request) -> Answer:
        if len(plans := self.plans.find(_owner(client, request), request.name)) == 1:
            self.plans.remove(plans[0])
            self._log("cancelled", f"{request.name} of user {plans[0].person}, planned for later", job=request.name)
            return Answer(kind=DONE)
        self.queue.cancel(self._place_of(client, request))
        return Answer(kind=DONE)

    def _put_first(self, client: Connection, request: Request) -> Answer:
        if client.peer.uid:
            raise NotPermitted("only root may put a job first", hint="run the command with sudo")
        place = self._place_of(client, request)
        if place.demand.is_spare:
            raise NotDone(f"{request.name} is a spare job, which comes after all others", hint="see 'amd-ctk queue'")
        self.queue.put_first(place)
        return Answer(kind=DONE)

    def _place_of(self, client: Connection, request: Request) -> Place:
        """Return the place of a waiting job; NotDone if there is none of this name, or more than one."""
        places = self.queue.find(_owner(client, request), request.name)
        if not places:
            raise NotDone(f"no job {request.name} waits for GPUs", hint="see 'amd-ctk queue'")
        if len(places) > 1:
            raise NotDone(f"{len(places)} users have a waiting job {request.name}", hint="name the owner with --user")
        return places[0]

    def _job_of(self, client: Connection, request: Request, name: str, hint: str) -> str:
        """Return the id of the job or reservation with this name; NotPermitted, or NotDone for root."""
        owner = _owner(client, request)
        if not owner:
            self._grants.require_own(name, client.peer.person(request.behind), hint)
        return job_id(owner or 0, name)

    def _reservation_of(self, client: Connection, request: Request) -> str:
        """Return the id of the reservation in which a job is to run; WaitRefused for a spare job."""
        if request.spare:
            problem = "a job in a reservation is not a spare job"
            raise WaitRefused(problem, hint="leave out --reservation or --preempt=now")
        return self._job_of(client, request, request.reservation, "run the command as its owner")

    def _find_place(self, demand: Demand) -> Place | None:
        """Return the place of a client that reconnects; ContainerRunning if another process waits under this name."""
        for place in self.queue.find(demand.owner, demand.name):
            if place.demand.waiter != demand.waiter:
                raise ContainerRunning(f"a job {demand.name} is already waiting", hint="give each job its own name")
            return place
        return None

    def _give_now(self, demand: Demand, give: Callable[[int], Answer], *, waits: bool) -> Answer | None:
        """Return what `give` returns; None if the job has to wait in line, GpusRefused if its client does not wait."""
        if waits and (demand.may_be_taken or self._is_over_limit(demand)):
            return None
        try:
            return self._give_in_turn(demand, give)
        except GpusRefused:
            # A job that can wait comes here only for shared GPUs. It waits where they are drained or sick.
            if not waits:
                raise
            return None

    def _is_over_limit(self, demand: Demand) -> bool:
        return bool(demand.permission.gpus) and self._leases.refresh().is_over(demand)

    def _give_in_turn(self, demand: Demand, give: Callable[[int], Given]) -> Given:
        """Return what `give` returns for the GPUs (bits) that jobs which wait leave to a job that does not wait.

        GpusRefused if they leave too few, or the person has as many as allowed.
        """
        if self._is_over_limit(demand):
            held = people.format_held(demand.permission, self.view.held(demand))
            raise GpusRefused(held, hint="'amd-ctk run --wait' waits in line")
        if not (demand.may_be_taken and (len(self.queue) or self.plans.all)):
            return give(demand.fitting)
        # A GPU may have been drained meanwhile, and a job that waits for a drained GPU holds up no other.
        self._leases.refresh()
        for gpus in self.queue.left_for(demand, self.view):
            if gpus == demand.fitting:
                return give(gpus)
            with suppress(GpusRefused):
                return give(gpus)
        jobs = self.queue.count_waiting(demand.fitting, self.view)
        if not jobs and demand.fitting & self.view.reserved_later(demand):
            raise refuse_reserved(demand, self.view)
        raise jobs_wait(jobs, self.view.users_of(demand.fitting))

    def _read_terms(self, *, strict: bool = False) -> people.Terms:
        """Return the administrator's terms; if they cannot be read, those of before, or ToolkitError if `strict`."""
        before = self._terms
        try:
            self._terms = self._find_terms(self._state.host)
        except ToolkitError:
            if strict:
                raise
        self.node_users.is_reserved = self._terms.is_reserved
        self._names.are_private = self._terms.has_private_names
        self._leftovers.rules, self._leftovers.cleans = self._terms.rules, self._terms.cleans
        if self._terms.permissions != before.permissions:
            self._update_permissions()
        return self._terms

    def _update_permissions(self) -> None:
        """End the wait of users who may no longer reserve GPUs, and update the limits of all others."""
        for place, client in self.queue.connected():
            try:
                permission = people.require_permission(self._terms, client.peer)
                if client.peer.uid and not place.demand.is_spare:
                    require_within(permission, place.demand.count)
                    place.demand = place.demand.allowed(permission)
            except ToolkitError as error:
                self.queue.refuse(place, error)


def _owner(client: Connection, request: Request) -> int | None:
    """Return the uid whose job is meant; None for any user's, which only root may mean. NotPermitted."""
    uid = client.peer.uid
    if uid and request.owner not in (None, uid):
        raise NotPermitted("only root may name another user", hint="run the command with sudo")
    return uid or request.owner
