"""Rules for who may reserve GPUs, how many at once, and among which.

Rules such as `alice=1001:gpus=2:time=24h:groups=notebooks`, `@gpu=44:gpus=4:together` and `everyone` also have the
numbers of users and groups, because names are not looked up when GPUs are given.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping

from amd_gpu_tracker.errors import WaitRefused
from amd_gpu_tracker.times import format_duration, parse_at_most
from amdgpu_discovery.choices.rules import NO_RULES, ChoiceRules
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_gpu_sharing.broker.requests.peer import Peer
    from amd_gpu_sharing.broker.requests.protocol import Request

EVERYONE = "everyone"
GROUP_SIGN = "@"
TOGETHER = "together"
# The order of waiting jobs: first the person who used the fewest GPU-seconds lately, or first come, first served.
FAIR = "fair"
FIFO = "fifo"
NO_LIMIT = 0
MOST_REQUESTED_GPUS = 1024
LARGEST_UID = (1 << 32) - 2
# A year.
LONGEST_LIMIT = 366 * 86400
# When a rule ends, in UTC. A rule cannot contain the colons of other forms.
UNTIL_FORM = "%Y%m%dT%H%MZ"


class NotAllowed(ToolkitError):
    """A user who may not reserve GPUs at all, these GPUs, or so many."""

    exit_code = 3


class Permission(Value):
    """A rule for a user, a group or everyone.

    Attributes:
        who: A user's name, `@` and a group's name, or `everyone`.
        number: Number of the user or group; None for everyone.
        gpus: How many GPUs at once; 0 for no limit.
        seconds: How long a job or reservation may last; 0 for no limit.
        groups: The groups of GPUs to choose from; () for all GPUs.
        is_together: Whether `gpus` counts for all members of the group together, and not for each of them.
        is_excluded: Whether it allows nothing, whatever rules for groups or everyone allow.
        until: When the rule ends, as if it was removed, in seconds since 1970 (UTC); 0 for never.
    """

    who: str
    number: int | None = None
    gpus: int = NO_LIMIT
    seconds: int = NO_LIMIT
    groups: tuple[str, ...] = ()
    is_together: bool = False
    is_excluded: bool = False
    until: int = 0

    def most_seconds(self, now: float) -> int:
        """Return how long a job or reservation that starts now may last, 0 for no limit; `now` is since 1970 (UTC)."""
        if not self.until:
            return self.seconds
        left = max(1, int(self.until - now))
        return min(self.seconds or left, left)

    @property
    def group(self) -> int | None:
        """Return the number of the group that the rule is for; None if it is for a user or everyone."""
        return self.number if self.is_of_group else None

    @property
    def is_of_group(self) -> bool:
        """Return whether the rule is for the members of a group."""
        return self.who.startswith(GROUP_SIGN)


ROOT = Permission(who="root", number=0)


class Terms(Value):
    """The administrator's terms for reserving GPUs.

    Attributes:
        rules: The rules for choices.
        permissions: Who may reserve GPUs.
        order: `fair` or `fifo`.
        is_reserved: Whether only users who have reserved a GPU may open its nodes.
        accepts_rules: Whether clients send their own rules for choices: all are programs of this process's user.
        idle: Idle seconds of GPUs after which their owner gets a warning; 0 for never.
        has_private_names: Whether files have words in place of the names that people gave their jobs.
        cleans: Whether processes that an ended job has left on its GPUs are ended.
        expiries: When accounts expire, by uid, in seconds since 1970 (UTC), as far as that is known.
        expired: The uids of accounts that have expired.
    """

    rules: ChoiceRules = NO_RULES
    permissions: tuple[Permission, ...] = ()
    order: str = FAIR
    is_reserved: bool = False
    accepts_rules: bool = False
    idle: int = 0
    has_private_names: bool = False
    cleans: bool = False
    expiries: Mapping[int, int] = {}
    expired: frozenset[int] = frozenset()


# Reads the terms of a host; raises ToolkitError if they cannot be read.
FindTerms = Callable[[Host], Terms]


def parse_permission(text: str) -> Permission:
    """Parse a rule as the administrator writes it; ValueError."""
    whose, *limits = text.split(":")
    who, _, number = whose.partition("=")
    if not is_name(who) or (who == EVERYONE) != (number == ""):
        raise ValueError(f"{whose!r} is not NAME=NUMBER, @GROUP=NUMBER or {EVERYONE}")
    permission = Permission(who=who, number=_parse_number(number, LARGEST_UID) if number else None)
    try:
        for limit in limits:
            permission = _with_limit(permission, limit)
    except WaitRefused as error:
        raise ValueError(error.message) from None
    if permission.is_together and not (permission.is_of_group and permission.gpus):
        raise ValueError(f"{whose} limits GPUs together, but is not a group with a count")
    return permission


def format_permission(permission: Permission) -> str:
    """Return a rule as the administrator writes it."""
    number = "" if permission.number is None else f"={permission.number}"
    gpus = f":gpus={permission.gpus}" if permission.gpus or permission.is_excluded else ""
    gpus += ":together" if permission.is_together else ""
    duration = f":time={format_duration(permission.seconds)}" if permission.seconds else ""
    groups = f":groups={','.join(permission.groups)}" if permission.groups else ""
    until = f":until={time.strftime(UNTIL_FORM, time.gmtime(permission.until))}" if permission.until else ""
    return f"{permission.who}{number}{gpus}{duration}{groups}{until}"


def without_ended(permissions: Iterable[Permission], now: float) -> list[Permission]:
    """Return the rules that have not ended; `now` is in seconds since 1970 (UTC)."""
    return [each for each in permissions if not each.until or now < each.until]


def find_permission(permissions: Iterable[Permission], uid: int, gids: Collection[int]) -> Permission | None:
    """Return the rule that counts for a user, None if there is none.

    A rule for the user goes before those for groups, and these go before the one for everyone. Of several groups, the
    rule that allows most counts.
    """
    permissions = list(permissions)
    own = [each for each in permissions if each.number == uid and not each.is_of_group]
    groups = [each for each in permissions if each.is_of_group and each.number in gids]
    everyone = [each for each in permissions if each.who == EVERYONE]
    return next(iter(own or sorted(groups, key=_generosity, reverse=True) or everyone), None)


def require_permission(terms: Terms, peer: Peer) -> Permission:
    """Return the rule for a process, or raise NotAllowed. Root and the user of this process need none."""
    if peer.uid in (0, os.geteuid()):
        return ROOT
    found = find_permission(terms.permissions, peer.uid, peer.gids)
    if found is None or found.is_excluded:
        hint = f"ask the administrator for 'sudo amd-ctk users allow {peer.uid}'"
        raise NotAllowed("you may not reserve GPUs on this host", hint=hint)
    if found.who == EVERYONE and peer.may_lack_groups and any(each.is_of_group for each in terms.permissions):
        # Without the group's rule, a member who dropped the group might have more GPUs than that rule allows.
        raise _may_lack_groups(is_hidden=peer.is_hidden)
    return while_account_lasts(terms, peer.uid, found)


def while_account_lasts(terms: Terms, uid: int, permission: Permission) -> Permission:
    """Return a rule that ends with the account of a user at the latest; NotAllowed if that has expired."""
    if uid in terms.expired:
        raise NotAllowed(f"the account {uid} has expired", hint="ask the administrator")
    times = (permission.until, terms.expiries.get(uid, 0))
    return permission.replace(until=min(filter(None, times), default=0))


def _may_lack_groups(*, is_hidden: bool) -> NotAllowed:
    rules = "rules for groups decide who may reserve GPUs here, and"
    if is_hidden:
        problem = f"{rules} the service cannot see whether this command runs in a user namespace"
        return NotAllowed(problem, hint="give the container of the service CAP_SYS_PTRACE")
    problem = f"{rules} in a user namespace groups may be missing"
    return NotAllowed(problem, hint="run the command outside of it, without 'unshare' or a container")


def permission_of(terms: Terms, peer: Peer, request: Request) -> Permission:
    """Return the limits for a request; NotAllowed. Spare jobs take GPUs from nobody, so they have no limits.

    Root has no limits, but a user who became root by sudo keeps the number of GPUs and the time of the user's own rule.
    """
    permission = require_permission(terms, peer)
    person = peer.person(request.behind)
    if person and not peer.uid:
        own = find_permission((each for each in terms.permissions if each.number is not None), person, ())
        if own and own.is_excluded:
            problem = f"user {person} may not reserve GPUs on this host"
            raise NotAllowed(problem, hint="run the command as root, without sudo")
        permission = ROOT.replace(gpus=own.gpus, seconds=own.seconds, until=own.until) if own else ROOT
        permission = while_account_lasts(terms, person, permission)
    return permission.replace(gpus=NO_LIMIT, seconds=NO_LIMIT) if request.spare else permission


def require_in_time(permission: Permission, seconds: int, *, start: float | None = None) -> None:
    """Raise NotAllowed if a user requests GPUs for longer than allowed, from now or from `start`."""
    allowed = permission.most_seconds(start or time.time())
    if allowed != NO_LIMIT and seconds > allowed:
        most = format_duration(allowed)
        raise NotAllowed(f"you may have GPUs for {most} at most", hint=f"write --for={most}, or less")


def format_held(permission: Permission, held: int) -> str:
    """Return how many of the GPUs that a permission allows are in use."""
    who = f"{permission.who} has" if permission.is_together else "you have"
    return f"{who} {held} of {permission.gpus} GPUs"


def is_name(text: str) -> bool:
    """Return whether the settings can contain this name of a user, @group or everyone."""
    name = text.removeprefix(GROUP_SIGN)
    return bool(name) and name.isprintable() and not set(" =:,") & set(name)


def _generosity(permission: Permission) -> tuple[bool | int, ...]:
    gpus, seconds = permission.gpus, permission.seconds
    of_gpus = (not permission.is_excluded, gpus == NO_LIMIT, gpus, not permission.is_together)
    return (*of_gpus, seconds == NO_LIMIT, seconds, not permission.groups, not permission.until, permission.until)


def _with_limit(permission: Permission, text: str) -> Permission:
    key, _, value = text.partition("=")
    if key == "gpus":
        gpus = _parse_number(value, MOST_REQUESTED_GPUS)
        return permission.replace(gpus=gpus, is_excluded=gpus == 0)
    if text == TOGETHER:
        return permission.replace(is_together=True)
    if key == "time":
        return permission.replace(seconds=parse_at_most(value, LONGEST_LIMIT))
    if key == "groups" and all(value.split(",")):
        return permission.replace(groups=tuple(value.split(",")))
    if key == "until":
        return permission.replace(until=_parse_until(value))
    raise ValueError(f"{text!r} is not gpus=N, together, time=24h, groups=GROUP,... or until=20261204T1700Z")


def _parse_until(text: str) -> int:
    # Imported here, because few rules end.
    from calendar import timegm

    try:
        return timegm(time.strptime(text, UNTIL_FORM))
    except (OverflowError, ValueError):
        raise ValueError(f"{text[:40]!r} is not a time such as 20261204T1700Z") from None


def _parse_number(text: str, largest: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(largest)) and int(text) <= largest):
        raise ValueError(f"{text!r} is not a number")
    return int(text)
