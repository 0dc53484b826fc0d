"""How permissions are shown: sentences, a table and JSON."""

from __future__ import annotations

from collections.abc import Sequence

from amd_ctk.listing import format_columns, to_json
from amd_gpu_tracker.broker.people import Permission
from amd_gpu_tracker.times import format_duration

HEADER = ("Who", "Number", "GPUs at once", "Time", "Groups")
NO_LIMIT = "no limit"
NOBODY = "Only root may reserve GPUs"


def format_permission(permission: Permission) -> str:
    """Return a permission as a sentence."""
    kind = "group" if permission.is_of_group else "user"
    number = "" if permission.number is None else f" ({kind} {permission.number})"
    if permission.is_excluded:
        return f"{permission.who}{number} may not reserve GPUs"
    how = "together" if permission.is_together else "at once"
    gpus = f", at most {permission.gpus} {how}" if permission.gpus else ""
    time = f", for at most {format_duration(permission.seconds)}" if permission.seconds else ""
    groups = f", of {', '.join(permission.groups)}" if permission.groups else ""
    return f"{permission.who}{number} may reserve GPUs{gpus}{time}{groups}"


def format_permissions(permissions: Sequence[Permission]) -> str:
    """Return all permissions as a table."""
    return format_columns([HEADER, *map(_row, permissions)]) if permissions else NOBODY


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
        }
        for each in permissions
    ]
    return to_json({"users": users, "require_reservation": requires_reservation})


def _row(permission: Permission) -> tuple[str, ...]:
    number = "" if permission.number is None else str(permission.number)
    if permission.is_excluded:
        return permission.who, number, "none", "-", "-"
    time = format_duration(permission.seconds) if permission.seconds else NO_LIMIT
    groups = ", ".join(permission.groups) or "all GPUs"
    gpus = f"{permission.gpus} together" if permission.is_together else str(permission.gpus or NO_LIMIT)
    return permission.who, number, gpus, time, groups
