"""`0,1-2 exclusive`: makes GPUs exclusive or shared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from amd_gpu_tracker.book.lock import CommandLock
from amd_gpu_tracker.book.policy import EXCLUSIVE, SHARED
from amd_gpu_tracker.cli.context import UsageError, in_brackets, print_note, program_of
from amd_gpu_tracker.errors import NotDone
from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_discovery.command_line.completion import complete_gpus
from amdgpu_discovery.command_line.plain_help import NOTHING_CHANGED, NOTHING_WOULD_CHANGE, DryRun
from amdgpu_discovery.command_line.standard_output import is_terminal

if TYPE_CHECKING:
    from amd_gpu_tracker.claims.accessibility import AccessibilityChange

DISABLED = "GPU Tracker is disabled"


def offer_accessibility(ctx: Any, incomplete: str) -> list[str]:
    """Return GPUs for the first word, and their accessibility for the second."""
    if not ctx.params.get("words"):
        return complete_gpus(incomplete)
    return [word for word in (EXCLUSIVE, SHARED) if word.startswith(incomplete)]


def set_gpus(
    context: typer.Context,
    words: Annotated[list[str], typer.Argument(metavar="gpu-ids accessibility", autocompletion=offer_accessibility)],
    *,
    dry_run: DryRun = False,
) -> None:
    """Make GPUs exclusive or shared."""
    if len(words) != 2:
        raise _explain_words(words, _shown_commands(context))
    if words[0].lower() in (EXCLUSIVE, SHARED):
        raise UsageError("the GPUs come first", hint=f"write gpu-tracker {words[1]} {words[0].lower()}")
    program = program_of(context)
    tracker = Tracker(program.host, rules=program.find_rules(), lock=CommandLock)
    _set_accessibility(tracker, words[0], words[1].lower(), dry_run=dry_run)


def _set_accessibility(tracker: Tracker, request: str, operation: str, *, dry_run: bool) -> None:
    """Make GPUs exclusive or shared, or print what would change."""
    if not tracker.is_enabled():
        print(DISABLED)
        # Programs read the guide's words alone.
        if is_terminal():
            print_note("enable it with 'sudo amd-ctk gpu-tracker enable'")
        raise typer.Exit(NotDone.exit_code)
    if operation not in (EXCLUSIVE, SHARED):
        raise UsageError(f"Error: Invalid operation. Must be '{EXCLUSIVE}' or '{SHARED}'")
    set_or_preview = tracker.preview_accessibility if dry_run else tracker.set_accessibility
    change = set_or_preview(request, exclusive=operation == EXCLUSIVE)
    print_change(change, operation, dry_run=dry_run)
    if not change.is_complete:
        raise typer.Exit(NotDone.exit_code)


def _explain_words(words: list[str], commands: Iterable[str]) -> UsageError:
    """Return the error for words that are not GPUs and their accessibility; they may be a misspelt command."""
    from difflib import get_close_matches

    for meant in get_close_matches(words[0], commands, n=1):
        return UsageError(f"there is no command {words[0]}", hint=f"did you mean {meant}?")
    what = "Missing arguments" if len(words) < 2 else "Too many arguments"
    return UsageError(f"Error: {what}. Usage: gpu-tracker <gpu_ids> <operation>")


def _shown_commands(context: typer.Context) -> list[str]:
    commands = getattr(context.parent and context.parent.command, "commands", {})
    return [name for name, command in commands.items() if not command.hidden]


def print_change(change: AccessibilityChange, operation: str, *, dry_run: bool = False) -> None:
    """Print the result of a change, or of a dry run, in the guide's words."""
    if not change.tracked:
        print(DISABLED)
    done, not_done = ("would be", "would not be") if dry_run else ("have been", "have not been")
    new = tuple(number for number in change.changed if number not in change.already)
    # The guide's words even if nothing changed, because programs may look for them.
    if named := new if dry_run else change.changed:
        print(f"GPUs {in_brackets(named)} {done} made {operation}")
    if change.in_use:
        reason = "more than one container is currently using it"
        print(f"GPUs {in_brackets(change.in_use)} {not_done} made exclusive because {reason}")
    if change.rootless:
        reason = "a rootless container is using it"
        print(f"GPUs {in_brackets(change.rootless)} {not_done} made exclusive because {reason}")
    if not new and change.is_complete:
        print(NOTHING_WOULD_CHANGE) if dry_run else print_note(NOTHING_CHANGED)
    if change.broken_ranges:
        print(f"Ignoring {in_brackets(change.broken_ranges)} GPUs Ranges as they are invalid")
    if change.unknown:
        print(f"Ignoring {in_brackets(change.unknown)} GPUs as they are invalid")
