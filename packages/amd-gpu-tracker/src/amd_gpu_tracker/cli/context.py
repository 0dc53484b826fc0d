"""What the commands share: the program that offers them, its host, and how they print."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from amd_gpu_tracker.book.lock import CommandLock
from amd_gpu_tracker.errors import TrackerDisabled
from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_discovery.choices.rules import NO_RULES, ChoiceRules
from amdgpu_discovery.command_line.plain_help import NOTHING_CHANGED, NOTHING_WOULD_CHANGE
from amdgpu_discovery.command_line.standard_output import print_error
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.untrusted.plain_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from amdgpu_discovery.host import Host

CDI_SPEC = "/etc/cdi/amd.json"


class UsageError(ToolkitError):
    """The arguments of the command line are missing, too many or contradictory."""


class CommandProgram:
    """The program that offers the commands: what it knows and does beyond the tracker. amd-ctk has one of its own."""

    name = "amd-gpu-tracker"

    def __init__(self, host: Host) -> None:
        """Work on this host."""
        self.host = host

    def follow_switch(self) -> None:
        """Update what depends on whether GPUs are tracked, or print how."""
        if self.host.stat(CDI_SPEC):
            print("Run 'sudo amd-ctk cdi refresh' to update the CDI spec", file=sys.stderr)

    def find_rules(self) -> ChoiceRules:
        """Return the administrator's rules for choices."""
        return NO_RULES

    def find_hints(self, *, is_drained: bool, reason: str) -> Sequence[str]:  # noqa: ARG002 - for those that have some
        """Return a sentence for each other program that gives out GPUs and must be told of drained ones."""
        return ()

    def find_givers(self) -> Sequence[str]:
        """Return the other programs that give out GPUs of this host."""
        return ()


def program_of(context: typer.Context) -> CommandProgram:
    """Return the program whose command this is."""
    program: CommandProgram = context.obj
    return program


def tracker_of(context: typer.Context) -> Tracker:
    """Return the tracker of the host of this command."""
    return Tracker(program_of(context).host, lock=CommandLock)


def print_note(sentence: str) -> None:
    """Print on standard error what is not in AMD's guide; ids of containers may hold anything."""
    print_error(printable(sentence))


def note_key(context: typer.Context, command: str, key: str) -> None:
    """Say that a command of `amd-ctk gpu-tracker` is a setting now. Without amd-ctk there is no other way to set it."""
    if context.parent and context.parent.info_name == "gpu-tracker":
        print_note(f"'amd-ctk gpu-tracker {command}' still works; 'amd-ctk config set {key}' replaces it")


def preview(tracker: Tracker, change: str, *, is_change: bool) -> None:
    """Print what a setting would change; TrackerDisabled if setting it would be refused."""
    if not tracker.is_enabled():
        raise TrackerDisabled
    print(change if is_change else NOTHING_WOULD_CHANGE)


def print_unchanged(*, is_change: bool) -> None:
    """Print a note if a setting had its value already."""
    if not is_change:
        print_note(NOTHING_CHANGED)


def in_brackets(items: Iterable[object]) -> str:
    """Return items as the guide writes them: [0 1]."""
    return f"[{' '.join(map(str, items))}]"
