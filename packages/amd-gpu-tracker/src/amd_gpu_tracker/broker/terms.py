"""What the administrator says, as far as the broker needs it."""

from __future__ import annotations

import os
from collections.abc import Callable

from amd_gpu_tracker.broker.order import FAIR
from amd_gpu_tracker.broker.people import EVERYONE, NO_LIMIT, ROOT, NotAllowed, Permission, find_permission
from amd_gpu_tracker.broker.protocol import ProtocolError
from amd_gpu_tracker.claims.by_name import find_wanted
from amd_gpu_tracker.times import format_duration
from amdgpu_discovery.choices.rules import NO_RULES, ChoiceRules, HealthLimits
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.host import Host
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.selection import select_gpus
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from amd_gpu_tracker.broker.peer import Peer
    from amd_gpu_tracker.broker.protocol import Request
    from amdgpu_discovery.choices.grammar import Choice


class Terms(Value):
    """Who may, and how.

    Attributes:
        rules: What is said about choices.
        permissions: Who may reserve GPUs.
        order: `fair` or `fifo`.
        is_reserved: Whether only those who have reserved a GPU may open its nodes.
        hears_rules: Whether clients say themselves what counts for choices: all are programs of this process's user.
        idle: Idle seconds of GPUs after which their owner gets a warning; 0 for never.
        has_private_names: Whether jobs are written down without the names that people gave them.
    """

    rules: ChoiceRules = NO_RULES
    permissions: tuple[Permission, ...] = ()
    order: str = FAIR
    is_reserved: bool = False
    hears_rules: bool = False
    idle: int = 0
    has_private_names: bool = False


# Reads the terms of a host; ToolkitError where they cannot be read.
FindTerms = Callable[[Host], Terms]


def require_permission(terms: Terms, peer: Peer) -> Permission:
    """Return the permission of a process; NotAllowed. Root needs none, nor does a caller for its own process."""
    if peer.uid in (0, os.geteuid()):
        return ROOT
    found = find_permission(terms.permissions, peer.uid, peer.gids)
    if found is None or found.is_excluded:
        hint = f"ask the administrator for 'sudo amd-ctk users allow {peer.uid}'"
        raise NotAllowed("you may not reserve GPUs on this host", hint=hint)
    if found.who == EVERYONE and peer.may_lack_groups and any(each.is_of_group for each in terms.permissions):
        # A member of a group who dropped it would have more than the group's rule allows.
        problem = "rules for groups decide who may reserve GPUs here, and in a user namespace groups may be missing"
        raise NotAllowed(problem, hint="run the command outside of it, without 'unshare' or a container")
    return found


def permission_of(terms: Terms, peer: Peer, request: Request) -> Permission:
    """Return what a process may for what it asks; NotAllowed. What is spare takes nothing: no limit counts.

    Root may everything, but who became root by sudo keeps the own limits.
    """
    permission, person = require_permission(terms, peer), peer.person(request.behind)
    if person and not peer.uid:
        own = find_permission((each for each in terms.permissions if each.number is not None), person, ())
        if own and own.is_excluded:
            problem = f"user {person} may not reserve GPUs on this host"
            raise NotAllowed(problem, hint="run the command as root, without sudo")
        permission = ROOT.replace(gpus=own.gpus, seconds=own.seconds) if own else ROOT
    return permission.replace(gpus=NO_LIMIT, seconds=NO_LIMIT) if request.spare else permission


def rules_as_told(rules: ChoiceRules, choice: Choice | None) -> dict[str, Any]:
    """Return what a client says of its rules: all but their numbers, and only the groups that its choice names."""
    named = {each.wanted for each in choice.conditions} if choice else set()
    groups = {name: request for name, request in rules.groups.items() if name in named}
    return {**rules.as_dict(), "groups": groups, "limits": rules.limits.as_dict(), "numbers": None}


def rules_heard(told: dict[str, Any], numbers: tuple[int, ...] | None) -> ChoiceRules:
    """Return the rules that a client told; ProtocolError where these are none."""
    try:
        return ChoiceRules.from_json(told, {"HealthLimits": HealthLimits}).replace(numbers=numbers)
    except (RecursionError, ValueError) as error:
        raise ProtocolError("the rules cannot be understood") from error


def rules_for(host: Host, terms: Terms, permission: Permission, numbers: tuple[int, ...] | None) -> ChoiceRules:
    """Return the rules for a user's requests: among the groups of GPUs allowed, and among `numbers`."""
    allowed = None if numbers is None else frozenset(numbers)
    if permission.groups:
        gpus = locate_gpus(host)
        requests = [terms.rules.groups[name] for name in permission.groups if name in terms.rules.groups]
        in_groups = frozenset(gpu.number for request in requests for gpu in select_gpus(gpus, request))
        allowed = in_groups if allowed is None else in_groups & allowed
    return terms.rules if allowed is None else terms.rules.replace(numbers=tuple(sorted(allowed)))


def find_wanted_within(
    host: Host, request: str, rules: ChoiceRules, permission: Permission
) -> tuple[Choice | None, Any]:
    """Return what `find_wanted` does, with an error about GPUs that exist and are not allowed in other words."""
    try:
        return find_wanted(host, request, rules)
    except RequestError as error:
        if not error.names_hidden or rules.numbers is None:
            raise
        whose = f"of {', '.join(permission.groups)}" if permission.groups else "of the batch job"
        raise RequestError(error.message, hint=f"you may reserve only GPUs {whose}") from error


def require_within(permission: Permission, count: int) -> None:
    """Raise NotAllowed if a user requests more GPUs than ever allowed."""
    if permission.gpus != NO_LIMIT and count > permission.gpus:
        most = f"{permission.gpus} GPU{'' if permission.gpus == 1 else 's'}"
        who = permission.who if permission.is_together else "you"
        raise NotAllowed(f"{who} may have {most} at once, but this requests {count}", hint="request fewer")


def require_in_time(permission: Permission, seconds: int) -> None:
    """Raise NotAllowed if a user requests GPUs for longer than allowed."""
    if permission.seconds != NO_LIMIT and seconds > permission.seconds:
        most = format_duration(permission.seconds)
        raise NotAllowed(f"you may have GPUs for {most} at most", hint=f"write --for={most}, or less")
