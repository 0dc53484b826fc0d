"""What the administrator says, as far as the broker needs it."""

from __future__ import annotations

from amd_gpu_tracker.broker.order import FAIR
from amd_gpu_tracker.broker.people import NO_LIMIT, NotAllowed, Permission, find_permission, format_duration
from amdgpu_discovery.choices.rules import NO_RULES, ChoiceRules
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.selection import select_gpus
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from amd_gpu_tracker.broker.peer import Peer
    from amdgpu_discovery.host import Host

    # Reads the terms of a host; ToolkitError where they cannot be read.
    FindTerms = Callable[[Host], "Terms"]

ROOT = Permission(who="root", number=0)


class Terms(Value):
    """Who may, and how.

    Attributes:
        rules: What is said about choices.
        permissions: Who may reserve GPUs.
        order: `fair` or `fifo`.
        is_reserved: Whether only those who have reserved a GPU may open its nodes.
    """

    rules: ChoiceRules = NO_RULES
    permissions: tuple[Permission, ...] = ()
    order: str = FAIR
    is_reserved: bool = False


def require_permission(terms: Terms, peer: Peer) -> Permission:
    """Return what a process may; NotAllowed. Root needs no permission."""
    if not peer.uid:
        return ROOT
    found = find_permission(terms.permissions, peer.uid, peer.gids)
    if found is None:
        raise NotAllowed(
            "you may not reserve GPUs on this host", hint=f"ask the administrator for 'amd-ctk users allow {peer.uid}'"
        )
    return found


def rules_for(host: Host, terms: Terms, permission: Permission, numbers: tuple[int, ...] | None) -> ChoiceRules:
    """Return the rules for what somebody may ask: among the groups of GPUs allowed, and among `numbers`."""
    allowed = None if numbers is None else frozenset(numbers)
    if permission.groups:
        gpus = locate_gpus(host)
        requests = [terms.rules.groups[name] for name in permission.groups if name in terms.rules.groups]
        in_groups = frozenset(gpu.number for request in requests for gpu in select_gpus(gpus, request))
        allowed = in_groups if allowed is None else in_groups & allowed
    return terms.rules if allowed is None else terms.rules.replace(numbers=tuple(sorted(allowed)))


def require_within(permission: Permission, count: int) -> None:
    """Raise NotAllowed where somebody asks for more GPUs than ever allowed."""
    if permission.gpus != NO_LIMIT and count > permission.gpus:
        most = f"{permission.gpus} GPU{'' if permission.gpus == 1 else 's'}"
        raise NotAllowed(f"you may have {most} at once, and this asks for {count}", hint="ask for fewer")


def require_in_time(permission: Permission, seconds: int) -> None:
    """Raise NotAllowed where somebody asks for GPUs for longer than allowed."""
    if permission.seconds != NO_LIMIT and seconds > permission.seconds:
        most = format_duration(permission.seconds)
        raise NotAllowed(f"you may have GPUs for {most} at most", hint=f"write --for={most}, or less")
