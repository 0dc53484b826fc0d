"""amd-ctk report: who used which GPUs, for how long, and recording that."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from amd_gpu_sharing.cli.usage import disable, enable
from amd_gpu_tracker.errors import OptionsExcluded
from amdgpu_discovery.command_line.context import PrintJson, host_of
from amdgpu_discovery.command_line.plain_help import PlainTyper, format_examples

EXAMPLES = ("sudo amd-ctk report", "sudo amd-ctk report --since=30d --by=gpu", "sudo amd-ctk report --html=week.html")
app = PlainTyper(
    help="Show who used which GPUs, and for how long.",
    invoke_without_command=True,
    epilog=format_examples(EXAMPLES),
)
app.command("enable")(enable)
app.command("disable")(disable)


@app.callback()
def report(
    context: typer.Context,
    *,
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Start of the report: 12h, 7d or 2w ago, or a date.")
    ] = "7d",
    by: Annotated[str, typer.Option(metavar="WHAT", help="Sum by person, gpu, image or day.")] = "person",
    as_json: PrintJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print it as CSV.")] = False,
    html: Annotated[str, typer.Option(metavar="FILE", help="Write a page with a timeline to this file.")] = "",
) -> None:
    """Show who used which GPUs, and for how long.

    The GPU Tracker records the history while it is enabled. 'sudo amd-ctk report enable' also records every 30
    seconds how busy GPUs are.
    """
    if context.invoked_subcommand is None:
        _print(context, since=since, by=by, as_json=as_json, as_csv=as_csv, html=html)


def _print(context: typer.Context, *, since: str, by: str, as_json: bool, as_csv: bool, html: str) -> None:
    from amd_gpu_sharing.report.page import Timeline, write_page
    from amd_gpu_sharing.report.read import find_recording_problem, read_report
    from amd_gpu_sharing.report.text import format_csv, format_json, format_report

    chosen = [name for name, given in (("--json", as_json), ("--csv", as_csv), ("--html", bool(html))) if given]
    if len(chosen) > 1:
        raise OptionsExcluded(*chosen[:2])
    timeline = Timeline()
    host = host_of(context)
    watch = timeline.watch if html else iter
    made, names = read_report(host, since=since, by=by, now=time.time(), watch=watch)
    if html:
        write_page(html, made, timeline, names)
        print(f"Wrote {html}", file=sys.stderr)
    else:
        formats = {"--json": format_json, "--csv": format_csv}
        chosen_format = formats[chosen[0]] if chosen else format_report
        print(chosen_format(made), end="")
    if reason := find_recording_problem(host):
        print(reason, file=sys.stderr)
