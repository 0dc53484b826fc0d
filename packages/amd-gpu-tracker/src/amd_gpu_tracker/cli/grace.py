"""`grace`: how long restarted containers keep their GPUs."""

from __future__ import annotations

from typing import Annotated

import typer

from amd_gpu_tracker.book.policy import LONGEST_GRACE
from amd_gpu_tracker.cli.context import preview, print_unchanged, tracker_of
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
    tracker = tracker_of(context)
    before = tracker.settings.restart_grace()
    wanted = before if seconds is None else seconds
    kept = f"keep their GPUs for {wanted} seconds" if wanted else "keep no GPUs"
    if seconds is None:
        print(f"Restarted containers {kept}")
    elif dry_run:
        preview(tracker, f"Restarted containers would {kept}", is_change=wanted != before)
    else:
        tracker.settings.set_restart_grace(wanted)
        print(f"Restarted containers {kept}")
        print_unchanged(is_change=wanted != before)
