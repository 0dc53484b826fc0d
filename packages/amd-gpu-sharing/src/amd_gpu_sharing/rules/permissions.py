"""Who may reserve GPUs, in config.toml and in lists, and the other settings of the service that gives out GPUs.

Names of users are looked up when rules are written, and never when GPUs are given.
"""

from __future__ import annotations

import grp
import pwd
import time
from collections.abc import Iterable, Sequence

from amd_device_spec.settings import (
    CONFIG_FILE,
    PRIVATE,
    RESERVED,
    USERS,
    SettingsError,
    parse_time,
    read_settings,
)
from amd_device_spec.settings_file import prepare_settings, read_written_settings
from amd_gpu_sharing.broker.requests.people import (
    EVERYONE,
    GROUP_SIGN,
    Permission,
    Terms,
    format_permission,
    is_name,
    parse_permission,
    without_ended,
)
from amd_gpu_sharing.rules.accounts import read_expiries
from amd_gpu_tracker.times import format_duration, format_moment
from amdgpu_discovery.command_line.edited import FileEdit
from amdgpu_discovery.command_line.listing import format_columns, to_json
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host

HEADER = ("Who", "Number", "GPUs at once", "Time", "Groups", "Until")
UNLIMITED = "no limit"
ONLY_ROOT = "Only root may reserve GPUs"


class UnknownUser(ToolkitError):
    """A name that belongs to no user and no group."""

    exit_code = 2


def read_permissions(host: Host) -> list[Permission]:
    """Return who may reserve GPUs; SettingsError."""
    return parse_users(read_written_settings(host).users, host.path(CONFIG_FILE))


def parse_users(users: Iterable[str], where: str = "") -> list[Permission]:
    """Return the rules of the setting in the file `where`, "" for one that is not written yet; SettingsError."""
    try:
        return [parse_permission(text) for text in users]
    except ValueError as error:
        problem = f"{where}: {USERS}: {error}" if where else f"{USERS}: {error}"
        raise SettingsError(problem, hint="let 'sudo amd-ctk users' write it") from error


def find_terms(host: Host) -> Terms:
    """Return the settings of the service: who may reserve GPUs, and in which order; SettingsError."""
    settings = read_settings(host)
    now = time.time()
    # Without rules, only root reserves GPUs.
    expiries = read_expiries(host) if settings.users else {}
    return Terms(
        rules=settings.choice_rules(),
        permissions=tuple(without_ended(parse_users(settings.users, host.path(CONFIG_FILE)), now)),
        order=settings.queue_order,
        is_reserved=settings.gpu_access == RESERVED,
        idle=parse_time(settings.idle),
        has_private_names=settings.job_names == PRIVATE,
        cleans=settings.clean == "auto",
        expiries=expiries,
        expired=frozenset(uid for uid, at in expiries.items() if at <= now),
    )


def allow(host: Host, rule: Permission) -> tuple[Permission, FileEdit]:
    """Return a rule with the number of its user or group, and the edit that puts it in place of their previous one.

    `rule.who` is what the administrator typed: a user, @group or everyone.
    """
    settings = read_written_settings(host)
    known = {group.partition("=")[0] for group in settings.gpu_groups}
    if missing := [group for group in rule.groups if group not in known]:
        raise SettingsError(f"there is no group of GPUs {missing[0]}", hint="see 'amd-ctk config show gpu-groups'")
    found = find_person(rule.who)
    permission = rule.replace(who=found.who, number=found.number)
    present = parse_users(settings.users, host.path(CONFIG_FILE))
    # In a file from another machine, their rule has another number.
    others = [each for each in present if _key(each) != _key(permission) and each.who != permission.who]
    return permission, _edit(host, (*others, permission))


def deny(host: Host, who: str) -> tuple[list[Permission], FileEdit]:
    """Return the rules without that of `who`, and the edit that removes it."""
    left = [each for each in read_permissions(host) if not _applies_to(each, who)]
    return left, _edit(host, left)


def deny_all(host: Host) -> FileEdit:
    """Return the edit that removes all rules."""
    return _edit(host, ())


def find_person(who: str) -> Permission:
    """Return the user, the group or everyone that a word names, by number; UnknownUser."""
    if who == EVERYONE:
        return Permission(who=EVERYONE)
    name, number = _find_group(who.removeprefix(GROUP_SIGN)) if who.startswith(GROUP_SIGN) else _find_user(who)
    if number == 0 and not who.startswith(GROUP_SIGN):
        raise UnknownUser("root needs no permission", hint="name another user")
    # Words in the settings contain no space.
    sign = GROUP_SIGN if who.startswith(GROUP_SIGN) else ""
    return Permission(who=name if is_name(name) else f"{sign}{number}", number=number)


def _find_user(who: str) -> tuple[str, int]:
    try:
        found = pwd.getpwuid(int(who)) if who.isascii() and who.isdecimal() else pwd.getpwnam(who)
    except (KeyError, OverflowError, ValueError):
        raise UnknownUser(f"there is no user {who[:64]!r}", hint="name a user, @GROUP or everyone") from None
    return found.pw_name, found.pw_uid


def _find_group(who: str) -> tuple[str, int]:
    try:
        found = grp.getgrgid(int(who)) if who.isascii() and who.isdecimal() else grp.getgrnam(who)
    except (KeyError, OverflowError, ValueError):
        raise UnknownUser(f"there is no group {who[:64]!r}", hint="see 'getent group'") from None
    return f"{GROUP_SIGN}{found.gr_name}", found.gr_gid


def _key(permission: Permission) -> tuple[bool, int | None]:
    return permission.is_of_group, permission.number


def _applies_to(permission: Permission, who: str) -> bool:
    """Return whether a permission belongs to `who`, even if the system no longer knows that name."""
    sign = GROUP_SIGN if permission.is_of_group else ""
    return who in (permission.who, f"{sign}{permission.number}")


def _edit(host: Host, permissions: Sequence[Permission]) -> FileEdit:
    return prepare_settings(host, {USERS: [format_permission(each) for each in permissions] or None})


def describe(permission: Permission) -> str:
    """Return a permission as a sentence."""
    kind = "group" if permission.is_of_group else "user"
    number = "" if permission.number is None else f" ({kind} {permission.number})"
    if permission.is_excluded:
        return f"{permission.who}{number} may not reserve GPUs"
    how = "together" if permission.is_together else "at once"
    gpus = f", at most {permission.gpus} {how}" if permission.gpus else ""
    duration = f", for at most {format_duration(permission.seconds)}" if permission.seconds else ""
    groups = f", of {', '.join(permission.groups)}" if permission.groups else ""
    until = f", until {format_moment(permission.until)}" if permission.until else ""
    return f"{permission.who}{number} may reserve GPUs{gpus}{duration}{groups}{until}"


def format_table(permissions: Sequence[Permission]) -> str:
    """Return all permissions as a table; with a column for the end of rules if any has one."""
    if not permissions:
        return ONLY_ROOT
    rows = [HEADER, *map(_row, permissions)]
    return format_columns(rows if any(each.until for each in permissions) else [row[:-1] for row in rows])


def format_json(permissions: Sequence[Permission], *, requires_reservation: bool) -> str:
    """Return everything as JSON."""
    users = [
        {
            "who": each.who,
            "number": each.number,
            "gpus": 0 if each.is_excluded else each.gpus or None,
            "together": each.is_together,
            "seconds": each.seconds or None,
            "groups": list(each.groups),
            "until": each.until or None,
        }
        for each in permissions
    ]
    return to_json({"users": users, "require_reservation": requires_reservation})


def _row(permission: Permission) -> tuple[str, ...]:
    number = "" if permission.number is None else str(permission.number)
    until = _format_end(permission.until)
    if permission.is_excluded:
        return permission.who, number, "none", "-", "-", until
    duration = format_duration(permission.seconds) if permission.seconds else UNLIMITED
    groups = ", ".join(permission.groups) or "all GPUs"
    gpus = f"{permission.gpus} together" if permission.is_together else str(permission.gpus or UNLIMITED)
    return permission.who, number, gpus, duration, groups, until


def _format_end(until: int) -> str:
    """Return when a rule ends, and whether that is over; "" for never."""
    over = " (over)" if until <= time.time() else ""
    return f"{format_moment(until)}{over}" if until else ""
