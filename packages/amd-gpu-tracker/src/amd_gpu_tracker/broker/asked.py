"""A user's request, weighed: which GPUs it wants, among which ones, and by which rules."""

from __future__ import annotations

from amd_gpu_tracker.broker.ending import GRACE_SECONDS
from amd_gpu_tracker.broker.order import Waiter, as_bits
from amd_gpu_tracker.broker.peer import Peer
from amd_gpu_tracker.broker.people import ROOT, Permission
from amd_gpu_tracker.broker.protocol import Request
from amd_gpu_tracker.broker.terms import Terms, find_wanted_within, require_within, rules_for, rules_heard
from amd_gpu_tracker.claims.by_name import is_contested
from amd_gpu_tracker.errors import TrackerDisabled
from amd_gpu_tracker.records.job_ids import job_id
from amd_gpu_tracker.records.state import State
from amd_gpu_tracker.waiting.ticket import Ticket
from amdgpu_discovery.choices.rules import NO_RULES, ChoiceRules
from amdgpu_discovery.errors import RequestError


class Asked(Waiter):
    """A request that can be met, now or later.

    Attributes:
        peer: The process that asks.
        name: Name of the job or reservation.
        gpus: Which GPUs, in the words of the request.
        permission: What its person may.
        rules: What is said about choices.
        may_be_taken: Whether its GPUs may be another's alone.
    """

    peer: Peer
    name: str
    gpus: str
    permission: Permission
    rules: ChoiceRules
    may_be_taken: bool = True

    @property
    def job(self) -> str:
        """Return the id of its job or reservation."""
        return job_id(self.peer.uid, self.name)

    def allowed(self, permission: Permission) -> Asked:
        """Return this with what its person may now."""
        # What is ended has some time left after SIGTERM.
        seconds = permission.seconds + GRACE_SECONDS if permission.seconds else 0.0
        return self.replace(permission=permission, seconds=seconds)


def weigh(state: State, terms: Terms, permission: Permission, peer: Peer, request: Request) -> Asked:
    """Return what a user requests; raise errors that waiting cannot change."""
    rules = rules_for(state.host, terms, permission, request.numbers)
    if terms.hears_rules and request.rules is not None:
        rules = rules_heard(request.rules, request.numbers)
    policy = state.read_policy()
    if not policy.enabled:
        raise TrackerDisabled
    choice, wanted = find_wanted_within(state.host, request.gpus, rules, permission)
    if not wanted:
        raise RequestError("the request names no GPU", hint="name GPUs, or say how many, as in free:1")
    count = choice.count if choice else len(wanted)
    require_within(permission, count)
    asked = Asked(
        peer=peer,
        person=peer.person(request.behind),
        name=request.name,
        gpus=request.gpus,
        permission=permission,
        rules=rules,
        count=count,
        among=as_bits(gpu.number for gpu in wanted),
        is_spare=bool(request.spare),
        may_be_taken=is_contested(policy, choice, wanted),
        is_particular=choice is not None and choice.in_one_hive,
    )
    return asked.allowed(permission)


def asked_before(ticket: Ticket) -> Asked:
    """Return what is known of a request by its ticket, until its client connects again."""
    return Asked(
        peer=Peer(uid=ticket.owner, gids=(), process=ticket.waiter),
        person=ticket.person,
        name=ticket.name,
        gpus=ticket.request,
        permission=ROOT,
        rules=NO_RULES,
        count=ticket.count,
        among=as_bits(ticket.among),
        is_spare=ticket.is_spare,
    )
