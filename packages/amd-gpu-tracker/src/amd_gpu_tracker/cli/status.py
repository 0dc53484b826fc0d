"""`status`: who uses which GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from amd_gpu_tracker.cli.context import print_note, tracker_of
from amdgpu_discovery.command_line.context import PrintJson
from amdgpu_discovery.command_line.plain_help import examples

if TYPE_CHECKING:
    from amd_gpu_tracker.watch.usage.reader import UsageReader

# Options of `status` that AMD's program does not have. `amd-ctk status` has them.
MOVED = {
    "--usage": "status --usage",
    "--peak": "status --peak",
    "--refusals": "gpu-tracker refused",
    "--prometheus": "gpu metrics",
}
ShowUsage = Annotated[
    bool, typer.Option("--usage", help="Show how much memory is used, by whom, and how busy GPUs are.")
]
ShowPeaks = Annotated[
    bool, typer.Option("--peak", help="Show usage, and the most memory that each container has used.")
]
ShowRefusals = Annotated[bool, typer.Option("--refusals", help="Show which containers were refused, and why.")]
PrintMetrics = Annotated[
    bool, typer.Option("--prometheus", help="Print the usage for Prometheus's textfile collector.")
]


@examples("amd-gpu-tracker status", "amd-gpu-tracker status --wide", "amd-gpu-tracker status --watch")
def status(
    context: typer.Context,
    *,
    as_json: PrintJson = False,
    wide: Annotated[
        bool, typer.Option("--wide", "-w", help="Also show container names, since when, and how they got their GPUs.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Print again at every change (usage: every 2 s), until Ctrl-C.")
    ] = False,
    no_trunc: Annotated[bool, typer.Option("--no-trunc", help="Do not shorten columns to fit the terminal.")] = False,
    refusals: ShowRefusals = False,
    usage: ShowUsage = False,
    peak: ShowPeaks = False,
    prometheus: PrintMetrics = False,
) -> None:
    """Show Status of GPUs."""
    from amd_gpu_tracker.watch.show.screen import print_refusals, print_status, require_compatible, watch_status

    chosen = {"--json": as_json, "--wide": wide, "--watch": watch, "--no-trunc": no_trunc, "--refusals": refusals}
    chosen |= {"--usage": usage, "--peak": peak, "--prometheus": prometheus}
    given = [option for option, is_chosen in chosen.items() if is_chosen]
    require_compatible(given)
    # Without amd-ctk, no other command has these options.
    if context.parent and context.parent.info_name == "gpu-tracker":
        for option in filter(MOVED.get, given):
            print_note(f"'amd-ctk {MOVED[option]}' replaces {option} here, which a later version will drop")
    tracker = tracker_of(context)
    if usage or peak or prometheus:
        reader = tracker.usage_looks()
        show_usage(reader, as_json=as_json, watch=watch, peaks=peak, prometheus=prometheus, no_trunc=no_trunc)
    elif refusals:
        print_refusals(tracker.refusals(), as_json=as_json)
    elif watch:
        watch_status(tracker.status, as_json=as_json, wide=wide)
    else:
        print_status(tracker.status, as_json=as_json, wide=wide, no_trunc=no_trunc)


def show_usage(
    reader: UsageReader, *, as_json: bool, watch: bool, peaks: bool, prometheus: bool, no_trunc: bool
) -> None:
    """Show who uses how much of each GPU, once or until Ctrl-C."""
    from amd_gpu_tracker.watch.usage.screen import print_metrics, print_usage, watch_usage

    if prometheus:
        print_metrics(reader)
    elif watch:
        watch_usage(reader, as_json=as_json, peaks=peaks)
    else:
        print_usage(reader, as_json=as_json, peaks=peaks, no_trunc=no_trunc)
