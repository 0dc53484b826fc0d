"""The settings of the GPU Tracker, which `amd-ctk config` shows and sets beside those of config.toml."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress

from amd_gpu_tracker.book.lock import CommandLock
from amd_gpu_tracker.cli.context import UsageError
from amd_gpu_tracker.cli.grace import set_grace
from amd_gpu_tracker.cli.holder import find_holder, set_holder
from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_discovery.command_line.plain_help import NOTHING_CHANGED, NOTHING_WOULD_CHANGE
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host

GRACE = "restart-grace"
HOLDER = "exclusive-holder"
IGNORED = "ignored-users"
HOLDERS = ("container", "pod")
# The values of a tracker on which nobody has set any.
DEFAULTS: dict[str, list[str]] = {GRACE: ["15"], HOLDER: ["container"], IGNORED: []}
LONGEST_NUMBER = 10


def read_keys(host: Host) -> dict[str, int | str | list[int]]:
    """Return the values by key; none if the tracker's state cannot be read, which other commands report."""
    tracker = Tracker(host)
    with suppress(ToolkitError, OSError):
        users = list(tracker.settings.ignored_users())
        return {GRACE: tracker.settings.restart_grace(), HOLDER: find_holder(tracker), IGNORED: users}
    return {}


def set_key(host: Host, key: str, values: Sequence[str], *, dry_run: bool) -> None:
    """Set a key, or print what would change. UsageError, and the errors of the tracker's settings."""
    tracker = Tracker(host, lock=CommandLock)
    if key == IGNORED:
        _ignore_only(tracker, [_number(key, value) for value in values], dry_run=dry_run)
        return
    if len(values) != 1:
        raise UsageError(f"{key} takes one value", hint=f"as in {key} {DEFAULTS[key][0]}")
    if key == GRACE:
        set_grace(tracker, _number(key, values[0]), dry_run=dry_run)
    elif values[0] in HOLDERS:
        set_holder(tracker, values[0], dry_run=dry_run)
    else:
        raise UsageError(f"{key} is one of {', '.join(HOLDERS)}, not {values[0][:40]!r}", hint="write one of them")


def _number(key: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= LONGEST_NUMBER):
        raise UsageError(f"{key}: {text[:40]!r} is not a whole number", hint="write digits")
    return int(text)


def _ignore_only(tracker: Tracker, users: Sequence[int], *, dry_run: bool) -> None:
    before = tracker.settings.ignored_users()
    verb = "would be" if dry_run else "are"
    is_change = {*before} != {*users}
    if not dry_run:
        # A number that is too large is the first, so that it changes nothing.
        for uid in sorted({*before, *users}, reverse=True):
            tracker.settings.ignore_user(uid, ignored=uid in users)
    if dry_run and not is_change:
        print(NOTHING_WOULD_CHANGE)
        return
    print(f"Users [{' '.join(map(str, sorted(users)))}] {verb} ignored" if users else f"No users {verb} ignored")
    if not is_change:
        print(NOTHING_CHANGED, file=sys.stderr)
