"""`drain` and `undrain`: GPUs that are not given out."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from amd_gpu_tracker.book.drains import format_end
from amd_gpu_tracker.cli.context import UsageError, in_brackets, print_note, program_of, tracker_of
from amdgpu_discovery.command_line.plain_help import NOTHING_CHANGED, NOTHING_WOULD_CHANGE, DryRun, examples

# In seconds: a hundred years.
LONGEST_DRAIN = 36500 * 86400
# Nothing notifies the tracker when a container ends.
DRAIN_POLL_SECONDS = 1.0

Gpus = Annotated[list[str], typer.Argument(metavar="GPUS", help="Which GPUs, as in AMD_VISIBLE_DEVICES.")]


@examples('amd-gpu-tracker drain 5 --reason "fan swap" --until Mon', "amd-gpu-tracker drain 0-3 --wait")
def drain(
    context: typer.Context,
    gpus: Gpus,
    *,
    reason: Annotated[
        str, typer.Option("--reason", metavar="REASON", help="Reason that refusals of these GPUs show.")
    ] = "",
    until: Annotated[
        str,
        typer.Option("--until", metavar="WHEN", help="End the drain then: Mon, 'Mon 08:00', 18:00 or 2026-12-01."),
    ] = "",
    duration: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="End the drain after 30m, 8h or 2d; 8 is 8 hours.")
    ] = "",
    wait: Annotated[bool, typer.Option("--wait", help="Wait until these GPUs are no longer in use.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Stop giving out these GPUs.

    Containers and jobs that have them keep them.
    """
    request = ",".join(gpus)
    tracker = tracker_of(context)
    end = _find_end(until, duration, now=time.time())
    new = tracker.gpus.would_drain(request, reason=reason, until=end)
    drained = " ".join(filter(None, ("drained", format_end(end))))
    if dry_run:
        print(f"GPUs {in_brackets(new)} would be {drained}" if new else NOTHING_WOULD_CHANGE)
        return
    numbers = tracker.drain(request, reason=reason, until=end)
    print(f"GPUs {in_brackets(numbers)} are {drained}", flush=True)
    if not new:
        print_note(NOTHING_CHANGED)
    if not tracker.is_enabled():
        print_note("the GPU Tracker is disabled, so no container is refused: run 'sudo amd-ctk gpu-tracker enable'")
    for hint in program_of(context).find_hints(is_drained=True, reason=reason):
        print_note(hint)
    # By key, because numbers change if a GPU is lost meanwhile.
    keys = {gpu.key for gpu in tracker.status().gpus if gpu.number in numbers}
    while wait and any(gpu.containers for gpu in tracker.status().tracked if gpu.key in keys):
        time.sleep(DRAIN_POLL_SECONDS)


def _find_end(until: str, duration: str, *, now: float) -> float:
    """Return the end of a drain in seconds since 1970 (UTC), 0 for none. Raises UsageError and WaitRefused."""
    from amd_gpu_tracker.times import parse_at_most, parse_moment

    if until and duration:
        raise UsageError("Error: --until and --for both set the end. Give one of them")
    if until:
        return parse_moment(until, now=now)
    if not duration:
        return 0
    seconds = parse_at_most(f"{duration}h" if duration.isdecimal() else duration, LONGEST_DRAIN)
    if not seconds:
        raise UsageError("Error: --for must be longer than 0")
    return now + seconds


@examples("amd-gpu-tracker undrain 5", "amd-gpu-tracker undrain all --dry-run")
def undrain(context: typer.Context, gpus: Gpus, *, dry_run: DryRun = False) -> None:
    """Give these GPUs out again."""
    request = ",".join(gpus)
    tracker = tracker_of(context)
    if dry_run:
        drained = tracker.gpus.would_undrain(request)
        print(f"GPUs {in_brackets(drained)} would be given out again" if drained else NOTHING_WOULD_CHANGE)
        return
    numbers = tracker.undrain(request)
    if not numbers:
        print("None of these GPUs was drained")
        return
    print(f"GPUs {in_brackets(numbers)} are given out again")
    for hint in program_of(context).find_hints(is_drained=False, reason=""):
        print_note(hint)
