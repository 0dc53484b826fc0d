"""Requests for GPUs: a job, a reservation, and what a job would get now."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from amd_gpu_sharing.broker.acts.at_once import give_now
from amd_gpu_sharing.broker.acts.whose import find_reservation
from amd_gpu_sharing.broker.parts import BrokerParts
from amd_gpu_sharing.broker.queue.place import Place
from amd_gpu_sharing.broker.queue.planned import find_doubts
from amd_gpu_sharing.broker.requests.connection import Connection
from amd_gpu_sharing.broker.requests.demand import Demand, resolve_demand
from amd_gpu_sharing.broker.requests.peer import has_gone
from amd_gpu_sharing.broker.requests.people import Terms, permission_of, require_in_time
from amd_gpu_sharing.broker.requests.protocol import DONE, Answer, Request
from amd_gpu_tracker.book.job_ids import job_id
from amd_gpu_tracker.book.lease import boot_offset
from amd_gpu_tracker.errors import ContainerRunning, WaitRefused
from amd_gpu_tracker.times import format_moment


def run(parts: BrokerParts, terms: Terms, client: Connection, request: Request) -> Answer | None:
    """Give a job its GPUs, or its place in the queue; None while it waits."""
    peer, job = client.peer, job_id(client.peer.uid, request.name)
    permission = permission_of(terms, peer, request)
    if grant := parts.grants.repeat_grant(job, peer.process):
        # A broker that was killed had given the GPUs already, and may have left the ticket.
        parts.queue.remove_job(peer.uid, request.name)
        return parts.scopes.hand_over(client, job, grant)
    if client.has_disconnected():
        raise has_gone()
    if request.reservation:
        return _run_inside(parts, client, request, job)
    demand = resolve_demand(parts.book, terms, permission, peer, request)
    if now := give_now(parts, demand, partial(parts.grants.give, demand), waits=request.wait):
        _log_granted(parts, demand.name, demand.person, "", now.numbers)
        return parts.scopes.hand_over(client, job, now)
    _wait_in_line(parts, client, demand)
    return None


def preview(parts: BrokerParts, terms: Terms, client: Connection, request: Request) -> Answer:
    """Answer what `run` would do now, and do nothing."""
    peer, job = client.peer, job_id(client.peer.uid, request.name)
    permission = permission_of(terms, peer, request)
    parts.grants.require_free_name(job)
    if request.reservation:
        found = parts.grants.preview_inside(
            job, find_reservation(parts, client, request), peer.process, vram_mb=request.vram_mb or 0
        )
        return found.replace(kind=DONE)
    demand = resolve_demand(parts.book, terms, permission, peer, request)
    give = partial(parts.grants.preview, demand)
    now = give_now(parts, demand, give, waits=request.wait)
    if now is None:
        _find_place(parts, demand)
        place = parts.queue.new_place(client, demand)
        now = parts.queue.preview(place, parts.leases.refresh(), terms.order, give)
    return now.replace(kind=DONE)


def reserve(parts: BrokerParts, terms: Terms, client: Connection, request: Request) -> Answer | None:
    """Reserve GPUs now, later, or when they are free; None while it waits."""
    permission = permission_of(terms, client.peer, request)
    if request.seconds <= 0:
        raise WaitRefused("a reservation needs an end", hint="give its length, as in --for=4h")
    if request.vram_mb:
        raise WaitRefused("a reservation has whole GPUs", hint="leave the amount of memory out")
    demand = resolve_demand(parts.book, terms, permission, client.peer, request)
    require_in_time(permission, request.seconds, start=request.start)
    if request.start is not None:
        return _reserve_later(parts, demand.replace(reserved_seconds=request.seconds), request.start)
    place = _find_place(parts, demand)
    if place and (done := parts.grants.repeat_reservation(place.ticket)):
        # A broker that was killed had reserved the GPUs already, and left the ticket.
        parts.queue.remove_job(demand.owner, demand.name)
        return done
    # The jobs of a reservation get some more time at its end, and those before it wait for them.
    demand = demand.replace(reserved_seconds=request.seconds).allowed(permission)
    now = give_now(parts, demand, partial(parts.grants.give, demand), waits=request.wait)
    if now is None:
        _wait_in_line(parts, client, demand)
        return None
    sentence = f"{demand.name} of user {demand.person}: GPUs {list(now.numbers)} for {request.seconds} s"
    parts.log("reserved", sentence, job=demand.name, user=demand.person, gpus=now.numbers)
    return now


def _run_inside(parts: BrokerParts, client: Connection, request: Request, job: str) -> Answer | None:
    """Give a job GPUs of a reservation of its person."""
    peer = client.peer
    reservation = find_reservation(parts, client, request)
    person = peer.person(request.behind) or 0
    vram_mb = request.vram_mb or 0
    grant = parts.grants.give_inside(job, reservation, peer.process, person=person, vram_mb=vram_mb)
    _log_granted(parts, request.name, person, f", in {reservation}", grant.numbers)
    return parts.scopes.hand_over(client, job, grant)


def _reserve_later(parts: BrokerParts, demand: Demand, start: float) -> Answer:
    """Plan a reservation; the message of the answer is why it is not promised, "" if it is."""
    parts.grants.require_free_name(demand.job)
    plan, numbers = parts.plans.add(demand, start, parts.leases.refresh())
    sentence = f"{plan.name} of user {plan.person}: GPUs {list(numbers)} from {format_moment(start)}"
    parts.log("planned", sentence, job=plan.name, user=plan.person, gpus=numbers)
    doubts = find_doubts(numbers, start - boot_offset(), parts.view)
    message = f"not promised: {', '.join(doubts.values())}" if doubts else ""
    return Answer(kind=DONE, numbers=numbers, seconds=plan.seconds, message=message)


def _wait_in_line(parts: BrokerParts, client: Connection, demand: Demand) -> None:
    """Give a client its place. The next round looks at it with all others, and may give it GPUs at once."""
    if place := _find_place(parts, demand):
        place.connect(client, demand)
        return
    parts.grants.require_free_name(demand.job)
    parts.queue.add(parts.queue.new_place(client, demand))


def _find_place(parts: BrokerParts, demand: Demand) -> Place | None:
    """Return the place of a client that reconnects; ContainerRunning if another process waits under this name."""
    for place in parts.queue.find(demand.owner, demand.name):
        if place.demand.waiter != demand.waiter:
            raise ContainerRunning(f"a job {demand.name} is already waiting", hint="give each job its own name")
        return place
    return None


def _log_granted(parts: BrokerParts, name: str, person: int, where: str, numbers: Sequence[int]) -> None:
    sentence = f"job {name} of user {person}{where}: GPUs {list(numbers)}"
    parts.log("granted", sentence, job=name, user=person, gpus=numbers)
