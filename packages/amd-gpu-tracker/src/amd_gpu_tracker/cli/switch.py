"""`enable` and `disable`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from amd_gpu_tracker.book.lock import CommandLock
from amd_gpu_tracker.cli.context import print_note, program_of, tracker_of
from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_discovery.command_line.plain_help import examples

if TYPE_CHECKING:
    from amdgpu_discovery.host import Host

# How many waiting jobs a message names.
MOST_NAMED_JOBS = 8


@examples("amd-gpu-tracker enable")
def enable(context: typer.Context) -> None:
    """Enable the GPU Tracker."""
    program = program_of(context)
    if not enable_tracker(program.host, program.follow_switch):
        print("GPU Tracker is already enabled")


def enable_tracker(host: Host, follow_switch: Callable[[], None]) -> bool:
    """Enable the tracker and call `follow_switch`; return False if it was enabled already."""

    def when_enabled() -> None:
        print("GPU Tracker has been enabled", flush=True)
        follow_switch()

    return Tracker(host, lock=CommandLock).enable(tell=print_note, when_enabled=when_enabled)


@examples("amd-gpu-tracker disable")
def disable(context: typer.Context) -> None:
    """Disable the GPU Tracker."""
    tracker = tracker_of(context)
    waiting = [ticket.name for ticket in tracker.waiting()]
    if not tracker.disable():
        print("GPU Tracker is already disabled")
        return
    print("GPU Tracker has been disabled")
    if waiting:
        print_note(_end_of_wait(waiting))
    program_of(context).follow_switch()


def _end_of_wait(names: list[str]) -> str:
    """Return a sentence about waiting jobs that end because the tracker was disabled."""
    more = f" and {len(names) - MOST_NAMED_JOBS} more" if len(names) > MOST_NAMED_JOBS else ""
    jobs = "1 waiting job ends" if len(names) == 1 else f"{len(names)} waiting jobs end"
    return f"{jobs} without GPUs: {', '.join(names[:MOST_NAMED_JOBS])}{more}"
