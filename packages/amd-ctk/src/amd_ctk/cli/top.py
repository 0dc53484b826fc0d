"""amd-ctk top: a screen with the state of every GPU, and who has it."""

from __future__ import annotations

import typer

from amdgpu_discovery.command_line.context import host_of
from amdgpu_discovery.command_line.plain_help import examples


@examples("amd-ctk top")
def top(context: typer.Context) -> None:
    """Watch what every GPU does, and who has it.

    Prints it once in a file or a pipe. Keys: q quits, s sorts, ? shows help.
    """
    from amd_ctk.gpus.listing import tracker_with_rules
    from amd_gpu_tracker.face.state_table import watch_states

    watch_states(tracker_with_rules(host_of(context)))
