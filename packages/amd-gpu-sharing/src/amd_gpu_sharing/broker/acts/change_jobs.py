"""Requests about what a user has or waits for: keep it longer, end it, give it back, leave the queue."""

from __future__ import annotations

import time

from amd_gpu_sharing.broker.acts.whose import find_job, find_owner, find_place
from amd_gpu_sharing.broker.jobs.ending import GRACE_SECONDS
from amd_gpu_sharing.broker.jobs.job_time import end_now, keep_from_now
from amd_gpu_sharing.broker.parts import BrokerParts
from amd_gpu_sharing.broker.requests.connection import Connection
from amd_gpu_sharing.broker.requests.people import Terms, require_permission
from amd_gpu_sharing.broker.requests.protocol import DONE, Answer, Request
from amd_gpu_tracker.book.job_ids import job_id, name_of, owner_of
from amd_gpu_tracker.book.lease import boot_offset
from amd_gpu_tracker.errors import NotDone, NotPermitted
from amd_gpu_tracker.times import format_moment, format_seconds


def keep(parts: BrokerParts, terms: Terms, client: Connection, request: Request) -> Answer:
    """Give a job or reservation a new end; NotDone, NotPermitted."""
    uid = client.peer.uid
    permission = require_permission(terms, client.peer)
    if request.seconds and uid:
        _require_not_planned(parts, job_id(uid, request.name), request.seconds)
    owner = find_owner(client, request)
    most = permission.most_seconds(time.time())
    job, seconds = keep_from_now(parts.book, request.name, owner, request.seconds, most=most, by=uid)
    ends = f"ends in {format_seconds(seconds)}" if seconds else "has no end"
    parts.log("kept", f"{job} by user {uid}: {ends}", job=name_of(job), user=uid)
    return Answer(kind=DONE, seconds=round(seconds))


def end(parts: BrokerParts, _: Terms, client: Connection, request: Request) -> Answer:
    """End a job, with TERM first; NotDone, NotPermitted."""
    uid = client.peer.uid
    job = end_now(parts.book, request.name, find_owner(client, request), by=uid)[0].job
    parts.endings.ended_by_user.add(job)
    parts.log("to be ended", f"{job}, as user {uid} requested", job=name_of(job), user=uid)
    return Answer(kind=DONE)


def release(parts: BrokerParts, _: Terms, client: Connection, request: Request) -> Answer:
    """Give the GPUs of a job or reservation back; NotDone, NotPermitted."""
    job = find_job(parts, client, request, request.name, "name the owner with --user")
    gpus = parts.grants.gpus_by_job.get(job, ())
    parts.grants.release(job, by=client.peer.uid)
    parts.log("released", job, job=name_of(job), user=owner_of(job), gpus=gpus)
    return Answer(kind=DONE)


def cancel(parts: BrokerParts, _: Terms, client: Connection, request: Request) -> Answer:
    """Remove a waiting job from the queue, or a reservation that has not begun; NotDone, NotPermitted."""
    name = request.name
    if len(plans := parts.plans.find(find_owner(client, request), name)) == 1:
        parts.plans.remove(plans[0])
        parts.log("cancelled", f"{name} of user {plans[0].person}, planned for later", job=name)
        return Answer(kind=DONE)
    parts.queue.cancel(find_place(parts, client, request))
    return Answer(kind=DONE)


def put_first(parts: BrokerParts, _: Terms, client: Connection, request: Request) -> Answer:
    """Put a waiting job before all others; NotPermitted but for root, NotDone."""
    if client.peer.uid:
        raise NotPermitted("only root may put a job first", hint="run the command with sudo")
    place = find_place(parts, client, request)
    if place.demand.is_spare:
        raise NotDone(f"{request.name} is a spare job, which comes after all others", hint="see 'amd-ctk queue'")
    parts.queue.put_first(place)
    return Answer(kind=DONE)


def _require_not_planned(parts: BrokerParts, job: str, seconds: int) -> None:
    """Raise NotPermitted if a reservation for later begins on a GPU of a job before it would end."""
    view = parts.leases.refresh()
    gpus = parts.grants.gpus_by_job.get(job, ())
    until = view.now + seconds + GRACE_SECONDS
    if found := [number for number in gpus if view.planned.get(number, until) < until]:
        when = format_moment(view.planned[found[0]] + boot_offset())
        raise NotPermitted(f"GPU {found[0]} is reserved from {when}", hint="keep it for less")
