"""What is left of users and groups that were deleted: the next account with such a number would have it."""

from __future__ import annotations

import grp
import pwd
from collections.abc import Callable, Iterator
from contextlib import suppress
from shlex import quote

from amd_ctk.sharing.permissions import read_permissions
from amd_gpu_tracker import Tracker
from amd_gpu_tracker.broker.people import GROUP_SIGN
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host


def find_departed(host: Host) -> tuple[str, ...]:
    """Return what takes away each rule, job and reservation whose user or group has no name, as words of `amd-ctk`."""
    with suppress(ToolkitError, OSError):
        return (*_find_rules(host), *_find_jobs(host))
    # Other checks say why nothing can be told.
    return ()


def _find_rules(host: Host) -> Iterator[str]:
    for rule in read_permissions(host):
        if rule.is_of_group and not _is_known(grp.getgrgid, rule.number):
            yield f"users deny {GROUP_SIGN}{rule.number}"
        elif not rule.is_of_group and not _is_known(pwd.getpwuid, rule.number):
            yield f"users deny {rule.number}"


def _find_jobs(host: Host) -> Iterator[str]:
    tracker = Tracker(host)
    for ticket in tracker.waiting():
        if not _is_known(pwd.getpwuid, ticket.owner):
            yield f"queue cancel {quote(ticket.name)} --user={ticket.owner}"
    for name, owner in tracker.shared_jobs.owners():
        if not _is_known(pwd.getpwuid, owner):
            yield f"queue end {quote(name)} --user={owner}"


def _is_known(find: Callable[[int], object], number: int | None) -> bool:
    try:
        return number is None or bool(find(number))
    except (KeyError, OverflowError):
        return False
