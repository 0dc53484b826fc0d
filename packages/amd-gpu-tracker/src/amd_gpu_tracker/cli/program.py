"""The program amd-gpu-tracker, and the same commands for `amd-ctk gpu-tracker`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from amd_gpu_tracker.cli.accessibility import set_gpus
from amd_gpu_tracker.cli.context import CommandProgram
from amd_gpu_tracker.cli.drain import drain, undrain
from amd_gpu_tracker.cli.forget import forget
from amd_gpu_tracker.cli.grace import grace
from amd_gpu_tracker.cli.hidden import initialize, release
from amd_gpu_tracker.cli.holder import holder
from amd_gpu_tracker.cli.ignore import ignore_user
from amd_gpu_tracker.cli.refused import refused
from amd_gpu_tracker.cli.reset import reset
from amd_gpu_tracker.cli.show_help import show_help
from amd_gpu_tracker.cli.status import status
from amd_gpu_tracker.cli.switch import disable, enable
from amd_gpu_tracker.cli.usage import metrics, usage
from amdgpu_discovery.command_line.completion import complete_gpus
from amdgpu_discovery.command_line.plain_help import PlainTyper, RootCommand
from amdgpu_discovery.command_line.program import ProgramGroup, add_commands, make_program
from amdgpu_discovery.command_line.standard_output import prepare_streams, print_error, run_and_leave
from amdgpu_discovery.host import SIMULATED_NOTICE

if TYPE_CHECKING:
    from collections.abc import Callable

# The hidden command behind `gpu-tracker 0,1-2 exclusive`.
SET = "set"
# Commands that change nothing.
READ_ONLY = ("status", "refused", "usage", "metrics", "help", "h")
METAVAR = "[gpu-ids] [accessibility] | COMMAND [ARGS]..."
# In the order of the help.
COMMANDS: dict[str, Callable[..., None]] = {
    "disable": disable,
    "enable": enable,
    "reset": reset,
    "status": status,
    "refused": refused,
    "usage": usage,
    "metrics": metrics,
    "forget": forget,
    "drain": drain,
    "undrain": undrain,
    "ignore": ignore_user,
    "holder": holder,
    "grace": grace,
    "help": show_help,
}
HIDDEN: dict[str, Callable[..., None]] = {"h": show_help, SET: set_gpus, "init": initialize, "release": release}
# Commands that are keys of 'amd-ctk config', and only the program without amd-ctk shows.
KEYS = ("ignore", "holder", "grace")
# Commands that only this program has: amd-ctk has `status --usage` and `gpu metrics`.
OWN = ("usage", "metrics")
HELP = """GPU Tracker related commands

\b
Usage:
  {program} [gpu-ids] [accessibility]

\b
Arguments:
  gpu-ids        Comma-separated list of GPU IDs (comma separated list, range operator, all)
  accessibility  Must be either 'exclusive' or 'shared'

\b
Examples:
  {program} 0,1,2 exclusive
  {program} 0,1-2 shared
  {program} all shared
  {program} all exclusive --dry-run

\b
OR

\b
  {program} [command] [options]
"""


class TrackerGroup(RootCommand):
    """A group that reads anything other than a command as a list of GPUs and their accessibility."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command to run; anything that is not a command is `set`."""
        return super().resolve_command(ctx, args if args[0] in self.commands else [SET, *args])

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Offer the commands, and GPU numbers, which can stand in place of a command."""
        # The class of completions depends on the version of Typer; there is always a command to take it from.
        kind = type(super().shell_complete(ctx, "")[0])
        return [*super().shell_complete(ctx, incomplete), *map(kind, complete_gpus(incomplete))]


class TrackerProgram(TrackerGroup, ProgramGroup):
    """The same group as a program of its own."""


def main() -> None:
    """Run amd-gpu-tracker, and end the process."""
    run_and_leave(run_command_line)


def run_command_line() -> None:
    """Run the command in `sys.argv` without ending the process."""
    prepare_streams()
    make_app()()


def make_app() -> typer.Typer:
    """Return the commands of amd-gpu-tracker when it runs without amd-ctk."""
    app = make_program(
        CommandProgram.name,
        HELP.format(program=CommandProgram.name),
        begin=lambda context: begin(context, CommandProgram),
        cls=TrackerProgram,
        subcommand_metavar=METAVAR,
    )
    _add_all(app, CommandProgram)
    return app


def make_group(program: type[CommandProgram]) -> typer.Typer:
    """Return the commands as a group of another program, whose root command has chosen the host."""
    app = PlainTyper(
        cls=TrackerGroup,
        help=HELP.format(program=program.name),
        invoke_without_command=True,
        subcommand_metavar=METAVAR,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def begin_group(context: typer.Context) -> None:
        begin(context, program)

    _add_all(app, program)
    return app


def begin(context: typer.Context, program: type[CommandProgram]) -> None:
    """Show the help if no command is given; name the simulated host that a command is about to change."""
    context.obj = program(context.obj)
    host = context.obj.host
    if context.invoked_subcommand is None:
        print(context.get_help())
    elif context.invoked_subcommand not in READ_ONLY and not host.is_this_machine:
        print_error(SIMULATED_NOTICE.format(root=host.root))


def _add_all(app: typer.Typer, program: type[CommandProgram]) -> None:
    commands = PlainTyper()
    is_own = program is CommandProgram
    for name, command in COMMANDS.items():
        if is_own or name not in OWN:
            commands.command(name, hidden=name in KEYS and not is_own)(command)
    for name, command in HIDDEN.items():
        commands.command(name, hidden=True)(command)
    add_commands(app, commands, written=CommandProgram.name, name=program.name)
