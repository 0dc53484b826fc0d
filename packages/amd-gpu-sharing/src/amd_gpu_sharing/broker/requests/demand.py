"""Work out a user's request: which GPUs it wants, among which, and by which rules."""

from __future__ import annotations

import time
from collections.abc import Iterable

from amd_gpu_sharing.broker.jobs.ending import GRACE_SECONDS
from amd_gpu_sharing.broker.requests.peer import Peer
from amd_gpu_sharing.broker.requests.people import NO_LIMIT, ROOT, NotAllowed, Permission, Terms
from amd_gpu_sharing.broker.requests.protocol import Request, parse_rules
from amd_gpu_sharing.tickets import Ticket
from amd_gpu_tracker.book.job_ids import job_id
from amd_gpu_tracker.book.lease import ProcessId
from amd_gpu_tracker.claims.by_name import find_wanted, is_contested
from amd_gpu_tracker.claims.claim import Book
from amd_gpu_tracker.claims.parts import require_known
from amd_gpu_tracker.errors import TrackerDisabled
from amdgpu_discovery.choices.rules import NO_RULES, ChoiceRules
from amdgpu_discovery.choices.selection import select_gpus
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.host import Host
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from amdgpu_discovery.choices.grammar import Choice


class Demand(Value):
    """What a request means that can be met now or later.

    Attributes:
        name, request, count, waiter, owner, person, is_spare, vram_mb: Those of its ticket, if it waits.
        fitting: The GPUs that fit, as bits, because every change goes through thousands of requests.
        seconds: The time after which the job ends; 0 for never.
        reserved_seconds: How long a reservation lasts; 0 for a job.
        is_particular: Whether its GPUs must be in one XGMI hive, so that not any set of the right size will do.
        permission: The permission of its person.
        rules: The rules for choices.
        may_be_taken: Whether another job may hold its GPUs exclusively.
        person_known: The person for its lease; None if unknown.
    """

    name: str
    request: str
    count: int
    waiter: ProcessId
    owner: int = 0
    person: int = 0
    is_spare: bool = False
    fitting: int
    seconds: float = 0.0
    reserved_seconds: int = 0
    is_particular: bool = False
    permission: Permission = ROOT
    rules: ChoiceRules = NO_RULES
    may_be_taken: bool = True
    vram_mb: int = 0
    person_known: int | None = 0

    @classmethod
    def of_ticket(cls, ticket: Ticket) -> Demand:
        """Return what a ticket tells about a request; the rest is unknown until the client connects."""
        return cls(fitting=as_bits(ticket.among), **{name: getattr(ticket, name) for name in IN_TICKET})

    def in_ticket(self) -> dict[str, Any]:
        """Return the fields of its ticket that are about the request, not about its turn."""
        return {"among": tuple(numbers_in(self.fitting)), **{name: getattr(self, name) for name in IN_TICKET}}

    @property
    def job(self) -> str:
        """Return the id of its job or reservation."""
        return job_id(self.owner, self.name)

    @property
    def most_seconds(self) -> int:
        """Return how long it lasts if it starts now; 0 for no limit."""
        most = self.permission.most_seconds(time.time())
        return min(self.reserved_seconds, most or self.reserved_seconds) or most

    def allowed(self, permission: Permission) -> Demand:
        """Return this request with its person's current permission."""
        demand = self.replace(permission=permission)
        # After SIGTERM, a job has some more time.
        most = demand.most_seconds
        return demand.replace(seconds=most + GRACE_SECONDS if most else 0.0)


IN_TICKET = Demand.fields().keys() & Ticket.fields().keys()


def resolve_demand(book: Book, terms: Terms, permission: Permission, peer: Peer, request: Request) -> Demand:
    """Return what a user's request means; raise errors that waiting cannot change."""
    host = book.state.host
    policy = book.state.read_policy()
    rules = _rules_for(host, terms, permission, request.numbers)
    if terms.accepts_rules and request.rules is not None:
        rules = parse_rules(request.rules, request.numbers)
    if not policy.enabled:
        raise TrackerDisabled
    choice, wanted = _find_wanted_within(host, request.gpus, rules, permission, request.vram_mb or 0)
    # A spare job ends for others, which would not give them a GPU of which somebody else has a part, too. And a user's
    # own queue promises no parts.
    vram_mb = 0 if request.spare or book.state.is_rootless else request.vram_mb or 0
    if vram_mb:
        require_known(wanted)
    if not wanted:
        raise RequestError("the request names no GPU", hint="name GPUs, or say how many, as in free:1")
    count = choice.count if choice else len(wanted)
    require_within(permission, count)
    person = peer.person(request.behind)
    demand = Demand(
        name=request.name,
        request=request.gpus,
        count=count,
        fitting=as_bits(gpu.number for gpu in wanted),
        waiter=peer.process,
        owner=peer.uid,
        person=person or 0,
        is_spare=bool(request.spare),
        is_particular=choice is not None and choice.in_one_hive,
        rules=rules,
        may_be_taken=is_contested(policy, choice, wanted, vram_mb),
        vram_mb=vram_mb,
        # Without the service, an unknown person stays unknown, as for jobs that did not wait.
        person_known=person if terms.accepts_rules else person or 0,
    )
    return demand.allowed(permission)


def require_within(permission: Permission, count: int) -> None:
    """Raise NotAllowed if a user requests more GPUs than they may ever have."""
    if permission.gpus != NO_LIMIT and count > permission.gpus:
        most = f"{permission.gpus} GPU{'' if permission.gpus == 1 else 's'}"
        who = permission.who if permission.is_together else "you"
        raise NotAllowed(f"{who} may have {most} at once, but this requests {count}", hint="request fewer")


def as_bits(numbers: Iterable[int]) -> int:
    """Return numbers of GPUs as bits."""
    return sum(1 << number for number in set(numbers))


def numbers_in(bits: int) -> list[int]:
    """Return the numbers of GPUs in `bits`."""
    return [number for number in range(bits.bit_length()) if bits >> number & 1]


def _rules_for(host: Host, terms: Terms, permission: Permission, numbers: tuple[int, ...] | None) -> ChoiceRules:
    """Return the rules for a user's request, limited to the groups of GPUs allowed and to `numbers`."""
    allowed = None if numbers is None else frozenset(numbers)
    if permission.groups:
        gpus = locate_gpus(host)
        requests = [terms.rules.groups[name] for name in permission.groups if name in terms.rules.groups]
        in_groups = frozenset(gpu.number for request in requests for gpu in select_gpus(gpus, request))
        allowed = in_groups if allowed is None else in_groups & allowed
    return terms.rules if allowed is None else terms.rules.replace(numbers=tuple(sorted(allowed)))


def _find_wanted_within(
    host: Host, request: str, rules: ChoiceRules, permission: Permission, vram_mb: int
) -> tuple[Choice | None, Any]:
    """Call `find_wanted`; if a GPU exists but is not allowed, say so in the error."""
    try:
        return find_wanted(host, request, rules, vram_mb)
    except RequestError as error:
        if not error.names_hidden or rules.numbers is None:
            raise
        whose = f"of {', '.join(permission.groups)}" if permission.groups else "of the batch job"
        raise RequestError(error.message, hint=f"you may reserve only GPUs {whose}") from error
