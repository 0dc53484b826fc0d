"""`ignore`: users whose rootless reservations do not count."""

from __future__ import annotations

from typing import Annotated

import typer

from amd_gpu_tracker.book.user_files import LARGEST_UID
from amd_gpu_tracker.cli.context import UsageError, in_brackets, note_key, tracker_of
from amdgpu_discovery.command_line.plain_help import NOTHING_WOULD_CHANGE, DryRun, examples


@examples("amd-gpu-tracker ignore 1000", "amd-gpu-tracker ignore 1000 --undo")
def ignore_user(
    context: typer.Context,
    uid: Annotated[int | None, typer.Argument(metavar="UID", min=0, max=LARGEST_UID, help="Id of the user.")] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Stop ignoring this user.")] = False,
    *,
    dry_run: DryRun = False,
) -> None:
    """Ignore a user's rootless reservations. Without UID, show which users are ignored."""
    note_key(context, "ignore", "ignored-users")
    settings = tracker_of(context).settings
    if uid is None:
        if undo:
            raise UsageError("Error: Missing arguments. Usage: gpu-tracker ignore <uid> --undo")
        users = settings.ignored_users()
        print(f"Users {in_brackets(users)} are ignored" if users else "No user is ignored")
    elif dry_run:
        would = (uid in settings.ignored_users()) is undo
        change = f"User {uid} would no longer be ignored" if undo else f"User {uid} would be ignored"
        print(change if would else NOTHING_WOULD_CHANGE)
    elif settings.ignore_user(uid, ignored=not undo):
        print(f"User {uid} is {'no longer' if undo else 'now'} ignored")
    else:
        print(f"User {uid} is {'not' if undo else 'already'} ignored")
