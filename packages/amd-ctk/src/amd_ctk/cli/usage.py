"""amd-ctk usage: record how busy GPUs are, for reports."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from amd_ctk.cli.context import command_group, host_of, host_to_change

app = command_group("Record how busy GPUs are, for reports")


@app.command("enable")
def enable(
    context: typer.Context,
    *,
    readers: Annotated[str, typer.Option(metavar="GROUP", help="Group that may read the history, or everyone.")] = "",
) -> None:
    """Record every 30 seconds how busy GPUs are."""
    from amd_ctk.report.timer import enable_timer

    host = host_to_change(context)
    enable_timer(host, readers=readers)
    print("How busy GPUs are is recorded every 30 seconds; 'amd-ctk report' shows it", file=sys.stderr)


@app.command("disable")
def disable(
    context: typer.Context,
    *,
    history: Annotated[bool, typer.Option("--history", help="Also stop recording reservations.")] = False,
) -> None:
    """Stop recording; keep what was recorded."""
    from amd_ctk.report.timer import disable_timer

    host = host_to_change(context)
    disable_timer(host, history=history)
    print("Reservations are not recorded" if history else "How busy GPUs are is not recorded", file=sys.stderr)


@app.command("sample", hidden=True)
def sample(context: typer.Context) -> None:
    """Record once, as the timer does."""
    from amd_ctk.report.timer import take_look
    from amd_gpu_tracker.records.state import State
    from amd_gpu_tracker.records.unrecorded import read_failures

    host = host_of(context)
    # In the journal a failure stands once, and not every 30 seconds.
    known = read_failures(State(host).run_directory) if "JOURNAL_STREAM" in os.environ else {}
    for record, problem in take_look(host).items():
        if known.get(record) != problem:
            print(f"amd-ctk: not recorded: {record}: {problem}", file=sys.stderr)
