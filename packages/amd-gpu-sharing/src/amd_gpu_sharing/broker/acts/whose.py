"""Whose job or reservation a request means. Only root may mean another user's."""

from __future__ import annotations

from amd_gpu_sharing.broker.parts import BrokerParts
from amd_gpu_sharing.broker.queue.place import Place
from amd_gpu_sharing.broker.requests.connection import Connection
from amd_gpu_sharing.broker.requests.protocol import Request
from amd_gpu_tracker.book.job_ids import job_id
from amd_gpu_tracker.errors import NotDone, NotPermitted, WaitRefused


def find_owner(client: Connection, request: Request) -> int | None:
    """Return the uid whose job is meant; None for any user's, which only root may mean. NotPermitted."""
    uid = client.peer.uid
    if uid and request.owner not in (None, uid):
        raise NotPermitted("only root may name another user", hint="run the command with sudo")
    return uid or request.owner


def find_job(parts: BrokerParts, client: Connection, request: Request, name: str, hint: str) -> str:
    """Return the id of the job or reservation with this name; NotPermitted, or NotDone for root."""
    owner = find_owner(client, request)
    if not owner:
        parts.grants.require_own(name, client.peer.person(request.behind), hint)
    return job_id(owner or 0, name)


def find_reservation(parts: BrokerParts, client: Connection, request: Request) -> str:
    """Return the id of the reservation in which a job is to run; WaitRefused for a spare job."""
    if request.spare:
        problem = "a job in a reservation is not a spare job"
        raise WaitRefused(problem, hint="leave out --reservation or --preempt=now")
    return find_job(parts, client, request, request.reservation, "run the command as its owner")


def find_place(parts: BrokerParts, client: Connection, request: Request) -> Place:
    """Return the place of a waiting job; NotDone if there is none of this name, or more than one."""
    places = parts.queue.find(find_owner(client, request), request.name)
    if not places:
        raise NotDone(f"no job {request.name} waits for GPUs", hint="see 'amd-ctk queue'")
    if len(places) > 1:
        raise NotDone(f"{len(places)} users have a waiting job {request.name}", hint="name the owner with --user")
    return places[0]
