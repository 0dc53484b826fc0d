"""`refused`: the containers that were refused."""

from __future__ import annotations

import typer

from amd_gpu_tracker.cli.context import tracker_of
from amdgpu_discovery.command_line.context import PrintJson
from amdgpu_discovery.command_line.plain_help import examples


@examples("amd-gpu-tracker refused", "amd-gpu-tracker refused --json")
def refused(context: typer.Context, *, as_json: PrintJson = False) -> None:
    """Show which containers were refused, and why."""
    from amd_gpu_tracker.watch.show.screen import print_refusals

    print_refusals(tracker_of(context).refusals(), as_json=as_json)
