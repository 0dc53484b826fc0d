"""What all commands share: the host that they work on, and groups that show their help."""

from __future__ import annotations

import sys

import typer

from amd_gpu_tracker.plain_help import PlainTyper
from amdgpu_discovery.host import SIMULATED_NOTICE, Host


def host_of(context: typer.Context) -> Host:
    """Return the host of this command, which the root command chose."""
    host: Host = context.find_root().obj
    return host


def host_to_change(context: typer.Context) -> Host:
    """Return the host that this command is about to change; announce a simulated one."""
    host = host_of(context)
    announce(host)
    return host


def announce(host: Host) -> None:
    """Print on standard error that a simulated host is changed, if it is one."""
    if not host.is_this_machine:
        print(SIMULATED_NOTICE.format(root=host.root), file=sys.stderr, flush=True)


def command_group(help_text: str) -> typer.Typer:
    """Make a group that shows its help, and succeeds, where no command of it is named."""
    app = PlainTyper(help=help_text, invoke_without_command=True)

    @app.callback()
    def show_help(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            print(context.get_help())

    return app
