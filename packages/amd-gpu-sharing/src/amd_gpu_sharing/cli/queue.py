"""amd-ctk queue: the jobs that have GPUs, and those that wait for some."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from amd_gpu_sharing.cli.reserve import note_new_word
from amdgpu_discovery.command_line.context import PrintJson, host_of, host_to_change
from amdgpu_discovery.command_line.plain_help import PlainTyper, examples

app = PlainTyper(help="Jobs that have GPUs, and jobs that wait", invoke_without_command=True)


@app.callback()
def queue(context: typer.Context, *, as_json: PrintJson = False) -> None:
    """Show who has GPUs, and who waits.

    Shows the jobs of all users, in the order in which they came. 'amd-ctk end NAME' ends one of them, and
    'sudo amd-ctk queue first OWNER/NAME' puts a waiting one before all others.
    """
    if context.invoked_subcommand is None:
        _print(context, as_json=as_json)


@app.command("list")
@examples("amd-ctk queue list", "amd-ctk queue list --json")
def list_jobs(context: typer.Context, *, as_json: PrintJson = False) -> None:
    """Show who has GPUs, and who waits.

    Shows the jobs of all users, in the order in which they came.
    """
    _print(context, as_json=as_json)


@app.command("cancel", hidden=True)
@examples("amd-ctk queue cancel nightly", "sudo amd-ctk queue cancel nightly --user alice")
def cancel(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the job.", metavar="NAME")],
    *,
    user: Annotated[str, typer.Option(metavar="USER", help="Owner of the job; only for root.")] = "",
) -> None:
    """Remove a waiting job from the queue.

    Its command does not run. A job that has its GPUs is no longer in the queue.
    """
    from amd_gpu_sharing.requests import cancel_job
    from amdgpu_discovery.usage.people import find_user

    cancel_job(host_to_change(context), name, find_user(user))
    print(f"{name} was removed from the queue", file=sys.stderr)
    note_new_word("queue cancel", name)


@app.command("end", hidden=True)
@examples("amd-ctk queue end nightly", "sudo amd-ctk queue end nightly --user alice")
def end(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the job or reservation.", metavar="NAME")],
    *,
    user: Annotated[str, typer.Option(metavar="USER", help="Owner of the job; only for root.")] = "",
) -> None:
    """End a running job or a reservation.

    The end of a reservation ends its commands too. They and jobs get SIGTERM, and SIGKILL 30 seconds later, as at the
    end of a time limit. You can end your own jobs; root can end anyone's.
    """
    from amd_gpu_sharing.requests import change
    from amdgpu_discovery.usage.people import find_user

    change(host_to_change(context), "end", name, find_user(user))
    print(f"Ending {name}", file=sys.stderr)
    note_new_word("queue end", name)


@app.command("first")
@examples("sudo amd-ctk queue first alice/paper")
def first(
    context: typer.Context,
    job: Annotated[str, typer.Argument(help="Owner and name of the waiting job.", metavar="OWNER/NAME")],
) -> None:
    """Put a waiting job before all others, once.

    Only root can. The job still waits for GPUs that are in use, and its person gets no GPU beyond a limit.
    """
    from amd_gpu_sharing.requests import put_first
    from amdgpu_discovery.usage.people import find_user

    owner, _, name = job.rpartition("/")
    put_first(host_to_change(context), name, find_user(owner))
    print(f"Job {name} is now the first in the queue", file=sys.stderr)


def _print(context: typer.Context, *, as_json: bool) -> None:
    from amd_gpu_sharing.listing import print_queue

    print_queue(host_of(context), as_json=as_json)
