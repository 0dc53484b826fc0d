"""amd-ctk status: the state of every GPU, and who has it or uses how much of it."""

from __future__ import annotations

from typing import Annotated

import typer

from amd_gpu_tracker.cli import ShowPeaks, ShowUsage, show_metrics, show_usage
from amdgpu_discovery.command_line.context import PrintJson, host_of
from amdgpu_discovery.command_line.plain_help import examples

# What earlier options are now.
REPLACED = {"--html": "gpu page", "--prometheus": "gpu metrics", "--refusals": "gpu-tracker refused"}


@examples("amd-ctk status", "amd-ctk status --usage", "amd-ctk status --usage --watch")
def status(
    context: typer.Context,
    *,
    as_json: PrintJson = False,
    usage: ShowUsage = False,
    peak: ShowPeaks = False,
    watch: Annotated[bool, typer.Option("--watch", help="Print usage again every 2 s, until Ctrl-C.")] = False,
    no_trunc: Annotated[bool, typer.Option("--no-trunc", help="Do not shorten columns of usage.")] = False,
    # Earlier forms.
    refusals: Annotated[bool, typer.Option("--refusals", hidden=True)] = False,
    prometheus: Annotated[bool, typer.Option("--prometheus", hidden=True)] = False,
    html: Annotated[bool, typer.Option("--html", hidden=True)] = False,
    output: Annotated[str, typer.Option("--output", "-o", hidden=True)] = "",
) -> None:
    """Print once what every GPU does, and who has it.

    'amd-ctk top' shows the same, live.
    """
    from amd_gpu_tracker import CommandLock, Tracker
    from amd_gpu_tracker.errors import OptionLacks
    from amd_gpu_tracker.watch.show.screen import print_refusals, require_compatible
    from amdgpu_discovery.command_line.stderr import print_note

    chosen = {"--json": as_json, "--usage": usage, "--peak": peak, "--refusals": refusals, "--prometheus": prometheus}
    chosen |= {"--watch": watch, "--no-trunc": no_trunc, "--html": html}
    given = [option for option, is_chosen in chosen.items() if is_chosen]
    require_compatible(given)
    for option in given:
        if option in REPLACED:
            print_note(f"'amd-ctk status {option}' still works; 'amd-ctk {REPLACED[option]}' replaces it")
    if output and not html:
        raise OptionLacks("--output", "--html", hint="add --html")
    if html:
        from amd_ctk.gpus.status_page import print_page

        print_page(host_of(context), output)
        return
    tracker = Tracker(host_of(context), lock=CommandLock)
    if prometheus:
        show_metrics(tracker.usage_looks())
    elif usage or peak:
        show_usage(tracker.usage_looks(), as_json=as_json, watch=watch, peaks=peak, no_trunc=no_trunc)
    elif refusals:
        print_refusals(tracker.refusals(), as_json=as_json)
    elif watch or no_trunc:
        raise OptionLacks(
            "--watch" if watch else "--no-trunc", "--usage or --peak", hint="'amd-ctk top' shows the states live"
        )
    else:
        from amd_ctk.companions import warn_of_rules
        from amd_ctk.gpus.listing import tracker_with_rules
        from amd_gpu_tracker.face.state_table import print_states, print_states_json

        (print_states_json if as_json else print_states)(tracker_with_rules(host_of(context)))
        warn_of_rules(host_of(context))
