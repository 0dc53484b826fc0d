"""`usage` and `metrics`: how much of each GPU is used, and by whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from amd_gpu_tracker.cli.context import tracker_of
from amdgpu_discovery.command_line.context import PrintJson
from amdgpu_discovery.command_line.plain_help import examples

if TYPE_CHECKING:
    from amd_gpu_tracker.watch.usage.reader import UsageReader

ShowUsage = Annotated[
    bool, typer.Option("--usage", help="Show how much memory is used, by whom, and how busy GPUs are.")
]
ShowPeaks = Annotated[
    bool, typer.Option("--peak", help="Show usage, and the most memory that each container has used.")
]
Watch = Annotated[bool, typer.Option("--watch", help="Print usage again every 2 s, until Ctrl-C.")]
NoTrunc = Annotated[bool, typer.Option("--no-trunc", help="Do not shorten columns of usage.")]


@examples("amd-gpu-tracker usage", "sudo amd-gpu-tracker usage --peak --watch")
def usage(
    context: typer.Context,
    *,
    as_json: PrintJson = False,
    peak: ShowPeaks = False,
    watch: Watch = False,
    no_trunc: NoTrunc = False,
) -> None:
    """Show how much memory is used, by whom, and how busy GPUs are."""
    from amd_gpu_tracker.watch.show.screen import require_compatible

    chosen = {"--watch": watch, "--no-trunc": no_trunc}
    require_compatible([option for option, is_chosen in chosen.items() if is_chosen])
    show_usage(tracker_of(context).usage_looks(), as_json=as_json, watch=watch, peaks=peak, no_trunc=no_trunc)


def metrics(context: typer.Context) -> None:
    """Print the usage for Prometheus's textfile collector."""
    show_metrics(tracker_of(context).usage_looks())


def show_metrics(reader: UsageReader) -> None:
    """Print the usage for Prometheus."""
    from amd_gpu_tracker.watch.usage.screen import print_metrics

    print_metrics(reader)


def show_usage(reader: UsageReader, *, as_json: bool, watch: bool, peaks: bool, no_trunc: bool) -> None:
    """Show who uses how much of each GPU, once or until Ctrl-C."""
    from amd_gpu_tracker.watch.usage.screen import print_usage, watch_usage

    if watch:
        watch_usage(reader, as_json=as_json, peaks=peaks)
    else:
        print_usage(reader, as_json=as_json, peaks=peaks, no_trunc=no_trunc)
