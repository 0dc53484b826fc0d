"""What is left of deleted users and groups: rules, waiting jobs, and reservations."""

from __future__ import annotations

import grp
import pwd
from collections.abc import Callable, Iterator
from contextlib import suppress
from shlex import quote

from amd_gpu_sharing.rules.permissions import read_permissions
from amd_gpu_sharing.shared_jobs import SharedJobs
from amd_gpu_tracker import Tracker
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host


def find_departed(host: Host) -> tuple[str, ...]:
    """Return the arguments of `amd-ctk` that remove each rule, job and reservation of a deleted user or group."""
    with suppress(ToolkitError, OSError):
        return (*_find_rules(host), *_find_jobs(host))
    # The state or the rules cannot be read, which other commands report.
    return ()


def _find_rules(host: Host) -> Iterator[str]:
    for rule in read_permissions(host):
        if not _is_known(grp.getgrgid if rule.is_of_group else pwd.getpwuid, rule.number):
            yield f"users deny {'@' if rule.is_of_group else ''}{rule.number}"


def _find_jobs(host: Host) -> Iterator[str]:
    tracker = Tracker(host)
    for ticket in tracker.waiting():
        if not _is_known(pwd.getpwuid, ticket.owner):
            yield f"end {quote(ticket.name)} --user={ticket.owner}"
    for name, owner in SharedJobs(tracker).owners():
        if not _is_known(pwd.getpwuid, owner):
            yield f"end {quote(name)} --user={owner}"


def _is_known(find: Callable[[int], object], number: int | None) -> bool:
    try:
        return number is None or bool(find(number))
    except (KeyError, OverflowError):
        return False
