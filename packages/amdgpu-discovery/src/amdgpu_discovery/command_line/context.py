"""Shared by all commands: their host, command groups, and options that are numbers within limits."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from amdgpu_discovery.command_line.plain_help import PlainTyper
from amdgpu_discovery.host import SIMULATED_NOTICE, Host

PrintJson = Annotated[bool, typer.Option("--json", help="Print everything as JSON.")]

# In `context.meta`: a function that returns what the program does when the tracker of a host is switched.
TRACKER_PROGRAM = "amd-gpu-tracker"


def host_of(context: typer.Context) -> Host:
    """Return the host that the root command chose for this command."""
    host: Host = context.find_root().obj
    return host


def host_to_change(context: typer.Context) -> Host:
    """Return the host for a command that changes it. Announce it first if it is simulated."""
    host = host_of(context)
    announce(host)
    return host


def announce(host: Host) -> None:
    """Print a notice on standard error if the host is simulated."""
    if not host.is_this_machine:
        print(SIMULATED_NOTICE.format(root=host.root), file=sys.stderr, flush=True)


def command_group(help_text: str) -> typer.Typer:
    """Create a command group that prints its help and succeeds if no subcommand is given."""
    app = PlainTyper(help=help_text, invoke_without_command=True)

    @app.callback()
    def show_help(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            print(context.get_help())

    return app


def whole_number(least: int, most: int | None = None) -> Callable[[object], int]:
    """Return a parser of whole numbers within these limits. It raises typer.BadParameter for any other value."""
    wanted = f"a whole number of at least {least}" if most is None else f"a whole number from {least} to {most}"

    def read(text: object) -> int:
        try:
            number = int(str(text))
        except ValueError:
            raise typer.BadParameter(f"{str(text)[:40]!r} is not {wanted}") from None
        if number < least or (most is not None and number > most):
            raise typer.BadParameter(f"{str(text)[:40]} is not {wanted}")
        return number

    return read


def seconds(text: object) -> float:
    """Parse a number of seconds. Raise typer.BadParameter if it is below 0.1, infinite or not a number."""
    try:
        number = float(str(text))
    except ValueError:
        number = 0.0
    if not 0.1 <= number < float("inf"):
        raise typer.BadParameter(f"{str(text)[:40]!r} is not a number of seconds, at least 0.1")
    return number
