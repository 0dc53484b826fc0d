"""The command tree of amd-ctk: one module a command group, put together here."""

from __future__ import annotations

from typing import Annotated

import typer

from amd_ctk.cli import cdi, config, doctor, explain, gpu, gpu_tracker, runtime, slurm, swarm, version
from amd_ctk.cli.failures import ReportingGroup
from amdgpu_discovery.host import ROOT_VARIABLE, host_from_environment

app = typer.Typer(
    name="amd-ctk",
    cls=ReportingGroup,
    help="Tool to configure AMD Container Toolkit",
    invoke_without_command=True,
    # Help is plain text in one column, as scripts and man pages want it; a trace is a trace.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("version")(version.version)
app.command("doctor")(doctor.doctor)
app.command("explain", context_settings=explain.SETTINGS)(explain.explain)
app.add_typer(runtime.app, name="runtime")
app.add_typer(config.app, name="config")
app.add_typer(cdi.app, name="cdi")
app.add_typer(gpu.app, name="gpu")
app.add_typer(gpu_tracker.app, name="gpu-tracker")
app.add_typer(swarm.app, name="swarm")
app.add_typer(slurm.app, name="slurm")


@app.callback()
def choose_host(
    context: typer.Context,
    host_root: Annotated[
        str, typer.Option(envvar=ROOT_VARIABLE, hidden=True, help="Work on the simulated host in this directory.")
    ] = "",
    # Its callback ends the program.
    asks_version: Annotated[  # noqa: ARG001
        bool,
        typer.Option("--version", is_eager=True, callback=version.print_version, help="Show the version and exit."),
    ] = False,
    # ReportingGroup reads it; the original has it as a global option too.
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
