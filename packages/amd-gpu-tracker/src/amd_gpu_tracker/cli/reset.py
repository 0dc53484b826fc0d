"""`reset`: makes all GPUs shared and detects their users again."""

from __future__ import annotations

from typing import Annotated

import typer

from amd_gpu_tracker.cli.context import print_note, tracker_of
from amdgpu_discovery.command_line.plain_help import examples

RESTART = (
    "Since GPU Tracker was enabled, it is recommended to stop and restart running containers "
    "to get the most accurate GPU Tracker status"
)


@examples("amd-gpu-tracker reset", "amd-gpu-tracker reset --force")
def reset(
    context: typer.Context,
    *,
    force: Annotated[bool, typer.Option("--force", help="Also forget the reservations of running jobs.")] = False,
) -> None:
    """Reset the GPU Tracker."""
    enabled = tracker_of(context).reset(force=force, tell=print_note)
    print("GPU Tracker has been reset")
    if enabled:
        print(RESTART)
