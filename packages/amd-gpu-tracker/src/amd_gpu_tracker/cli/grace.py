"""`grace`: how long restarted containers keep their GPUs."""

from __future__ import annotations

from typing import Annotated

import typer

from amd_gpu_tracker.book.policy import LONGEST_GRACE
from amd_gpu_tracker.cli.context import note_key, preview, print_unchanged, tracker_of
from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_discovery.command_line.plain_help import DryRun, examples


@examples("amd-gpu-tracker grace", "amd-gpu-tracker grace 30", "amd-gpu-tracker grace 0")
def grace(
    context: typer.Context,
    seconds: Annotated[
        int | None, typer.Argument(metavar="SECONDS", min=0, max=LONGEST_GRACE, help="How long; 0 keeps no GPUs.")
    ] = None,
    *,
    dry_run: DryRun = False,
) -> None:
    """Let restarted containers keep their GPUs.

    A container that its engine restarts keeps its GPUs for SECONDS after it ends. Without SECONDS, show the setting.
    """
    note_key(context, "grace", "restart-grace")
    tracker = tracker_of(context)
    if seconds is None:
        print(f"Restarted containers {_describe(tracker.settings.restart_grace())}")
    else:
        set_grace(tracker, seconds, dry_run=dry_run)


def set_grace(tracker: Tracker, seconds: int, *, dry_run: bool) -> None:
    """Set for how long restarted containers keep their GPUs, or print what would change."""
    is_change = seconds != tracker.settings.restart_grace()
    if dry_run:
        preview(tracker, f"Restarted containers would {_describe(seconds)}", is_change=is_change)
        return
    tracker.settings.set_restart_grace(seconds)
    print(f"Restarted containers {_describe(seconds)}")
    print_unchanged(is_change=is_change)


def _describe(seconds: int) -> str:
    return f"keep their GPUs for {seconds} seconds" if seconds else "keep no GPUs"
