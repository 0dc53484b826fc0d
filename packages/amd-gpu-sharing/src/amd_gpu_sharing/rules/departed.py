"""What is left of deleted users and groups: rules, waiting jobs, and reservations."""

from __future__ import annotations

import pwd
from collections.abc import Iterator
from contextlib import suppress
from shlex import quote

from amd_gpu_sharing.broker.requests.people import Permission
from amd_gpu_sharing.rules.permissions import UnknownUser, find_person, read_permissions
from amd_gpu_sharing.shared_jobs import SharedJobs
from amd_gpu_tracker import Tracker
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host


def find_departed(host: Host) -> tuple[str, ...]:
    """Return the arguments of `amd-ctk` that remove each rule, job and reservation of a deleted user or group.

    A rule whose number is no longer, or on this machine never was, that of its name is somebody else's.
    """
    with suppress(ToolkitError, OSError):
        return (*_find_rules(host), *_find_jobs(host))
    # The state or the rules cannot be read, which other commands report.
    return ()


def _find_rules(host: Host) -> Iterator[str]:
    for rule in read_permissions(host):
        if rule.number is not None and not _is_of(rule):
            yield f"users deny {'@' if rule.is_of_group else ''}{rule.number}"


def _is_of(rule: Permission) -> bool:
    """Return whether a rule's number is that of its name."""
    with suppress(UnknownUser):
        return find_person(rule.who).number == rule.number
    return False


def _find_jobs(host: Host) -> Iterator[str]:
    tracker = Tracker(host)
    for ticket in tracker.waiting():
        if not _is_known(ticket.owner):
            yield f"end {quote(ticket.name)} --user={ticket.owner}"
    for name, owner in SharedJobs(tracker).owners():
        if not _is_known(owner):
            yield f"end {quote(name)} --user={owner}"


def _is_known(user: int | None) -> bool:
    try:
        return user is None or bool(pwd.getpwuid(user))
    except (KeyError, OverflowError):
        return False
