"""`status`: who has which GPU."""

from __future__ import annotations

from typing import Annotated

import typer

from amd_gpu_tracker.cli.context import tracker_of
from amdgpu_discovery.command_line.context import PrintJson
from amdgpu_discovery.command_line.plain_help import examples


@examples("amd-gpu-tracker status", "amd-gpu-tracker status --wide", "amd-gpu-tracker status --watch")
def status(
    context: typer.Context,
    *,
    as_json: PrintJson = False,
    wide: Annotated[
        bool, typer.Option("--wide", "-w", help="Also show container names, since when, and how they got their GPUs.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Print again at every change, until Ctrl-C.")] = False,
    no_trunc: Annotated[bool, typer.Option("--no-trunc", help="Do not shorten columns to fit the terminal.")] = False,
) -> None:
    """Show Status of GPUs."""
    from amd_gpu_tracker.watch.show.screen import print_status, require_compatible, watch_status

    chosen = {"--watch": watch, "--no-trunc": no_trunc}
    require_compatible([option for option, is_chosen in chosen.items() if is_chosen])
    tracker = tracker_of(context)
    if watch:
        watch_status(tracker.status, as_json=as_json, wide=wide)
    else:
        print_status(tracker.status, as_json=as_json, wide=wide, no_trunc=no_trunc)
