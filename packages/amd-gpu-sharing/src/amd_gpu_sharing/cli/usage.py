"""amd-ctk usage: the earlier name of 'report enable' and 'report disable', and what the timer calls."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from amdgpu_discovery.command_line.context import announce, command_group, host_of
from amdgpu_discovery.command_line.plain_help import NOTHING_CHANGED, NOTHING_WOULD_CHANGE, DryRun, examples

app = command_group("Record how busy GPUs are, for reports")


@app.command("enable")
@examples("sudo amd-ctk report enable", "sudo amd-ctk report enable --readers=gpu-admins")
def enable(
    context: typer.Context,
    *,
    readers: Annotated[str, typer.Option(metavar="GROUP", help="Group that may read the history, or everyone.")] = "",
    dry_run: DryRun = False,
) -> None:
    """Record every 30 seconds how busy GPUs are."""
    from amd_gpu_sharing.report.timer import enable_timer, would_enable

    _note_new_word(context, "enable")
    host = host_of(context)
    is_change = would_enable(host, readers=readers)
    if dry_run:
        print("Would record every 30 seconds how busy GPUs are" if is_change else NOTHING_WOULD_CHANGE)
        return
    announce(host)
    enable_timer(host, readers=readers)
    print("Recording every 30 seconds how busy GPUs are; 'amd-ctk report' shows it", file=sys.stderr)
    if not is_change:
        print(NOTHING_CHANGED, file=sys.stderr)


@app.command("disable")
@examples("sudo amd-ctk report disable", "sudo amd-ctk report disable --history")
def disable(
    context: typer.Context,
    *,
    history: Annotated[bool, typer.Option("--history", help="Also stop recording reservations.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Stop recording; keep what was recorded."""
    from amd_gpu_sharing.report.timer import disable_timer, would_disable

    _note_new_word(context, "disable")
    host = host_of(context)
    is_change = would_disable(host, history=history)
    what = "reservations" if history else "how busy GPUs are"
    if dry_run:
        print(f"Would stop recording {what}" if is_change else NOTHING_WOULD_CHANGE)
        return
    announce(host)
    disable_timer(host, history=history)
    print(f"Not recording {what}", file=sys.stderr)
    if not is_change:
        print(NOTHING_CHANGED, file=sys.stderr)


def _note_new_word(context: typer.Context, verb: str) -> None:
    if context.parent and context.parent.info_name == "usage":
        from amdgpu_discovery.command_line.stderr import print_note

        print_note(f"'amd-ctk usage {verb}' still works; 'amd-ctk report {verb}' replaces it")


@app.command("sample", hidden=True)
def sample(context: typer.Context) -> None:
    """Record once, as the timer does."""
    from amd_gpu_sharing.report.timer import take_sample
    from amd_gpu_tracker import Tracker

    host = host_of(context)
    # The journal gets a failure once, and not every 30 seconds.
    known = Tracker(host).recording.failures() if "JOURNAL_STREAM" in os.environ else {}
    for record, problem in take_sample(host).items():
        if known.get(record) != problem:
            print(f"amd-ctk: not recorded: {record}: {problem}", file=sys.stderr)
