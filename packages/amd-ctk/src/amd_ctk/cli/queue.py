"""amd-ctk queue: the jobs that wait for GPUs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from amd_ctk.cli.context import host_of, host_to_change
from amd_ctk.cli.group import command_group
from amd_gpu_tracker import Tracker
from amd_gpu_tracker.errors import NotDone

app = command_group("Jobs that wait for GPUs")


@app.command("list")
def list_jobs(
    context: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Show the jobs that wait, in the order in which they will be served."""
    from amd_ctk.job.listing import print_queue

    print_queue(host_of(context), as_json=as_json)


@app.command("cancel")
def cancel(
    context: typer.Context, name: Annotated[str, typer.Argument(help="Name of the job.", metavar="NAME")]
) -> None:
    """Take a job out of the queue; its command is not run. A job that has its GPUs is not in the queue any more."""
    from amd_gpu_tracker.waiting.ticket import require_name

    require_name(name)
    if not Tracker(host_to_change(context)).cancel(name):
        raise NotDone(f"no job {name} waits for GPUs", hint="see 'amd-ctk queue list'")
    print(f"Job {name} has been taken out of the queue", file=sys.stderr)
