"""The command tree of amd-ctk: options of all commands here, and one module a command or group of them."""

from __future__ import annotations

from typing import Annotated

import typer

import amd_gpu_tracker.plain_help  # noqa: F401 - it is enough to import it
from amd_ctk.cli.root_group import RootGroup
from amdgpu_discovery.host import ROOT_VARIABLE, host_from_environment

app = typer.Typer(
    name="amd-ctk",
    cls=RootGroup,
    help="Tool to configure AMD Container Toolkit",
    invoke_without_command=True,
    # Help is plain text in one column, as scripts and man pages want it; a trace is a trace.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        from amd_ctk.cli.version import print_version

        print_version()
        raise typer.Exit


@app.callback()
def choose_host(
    context: typer.Context,
    host_root: Annotated[
        str, typer.Option(envvar=ROOT_VARIABLE, hidden=True, help="Work on the simulated host in this directory.")
    ] = "",
    # Its callback ends the program.
    asks_version: Annotated[  # noqa: ARG001
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version and exit."),
    ] = False,
    # RootGroup reads it; the original has it as a global option too.
    debug: Annotated[  # noqa: ARG001
        bool, typer.Option("--debug", "-d", help="Show a stack trace on failure.")
    ] = False,
) -> None:
    """Tool to configure AMD Container Toolkit."""
    if context.invoked_subcommand is None:
        print(context.get_help())
    context.obj = host_from_environment({ROOT_VARIABLE: host_root})


def main() -> None:
    """Run amd-ctk."""
    app()
