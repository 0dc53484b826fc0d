"""The programs of the companions: their options for all commands, their host, and the report of failures."""

from __future__ import annotations

from copy import copy
from importlib.metadata import version
from typing import Annotated, Any

import typer

from amdgpu_discovery.command_line.failures import report_failures
from amdgpu_discovery.command_line.plain_help import HostRoot, PlainTyper, RootCommand
from amdgpu_discovery.command_line.standard_output import prepare_streams, run_and_leave
from amdgpu_discovery.host import ROOT_VARIABLE, host_from_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class ProgramGroup(RootCommand):
    """The root command of a program. It reports the failures of all commands, with one sentence and an exit code."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line. Options such as --install-completion act here, and may fail."""
        read: list[str] = report_failures(lambda: super(ProgramGroup, self).parse_args(ctx, args))
        return read

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        return report_failures(lambda: super(ProgramGroup, self).invoke(ctx))


def show_help_alone(context: typer.Context) -> None:
    """Print the help if no command is given."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def make_program(
    name: str,
    help_text: str,
    *,
    begin: Callable[[typer.Context], None] = show_help_alone,
    cls: type[ProgramGroup] = ProgramGroup,
    **options: Any,
) -> typer.Typer:
    """Return a program without commands. Its distribution has its name.

    `begin` is called before each command, when `obj` of the context is the host. `options` are Typer's.
    """
    app = PlainTyper(
        name=name,
        cls=cls,
        help=help_text,
        invoke_without_command=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        **options,
    )
    app.callback()(_host_chooser(begin))
    return app


def _print_version(context: typer.Context, asked: bool) -> None:
    # TAB completion parses the line as well.
    if asked and not context.resilient_parsing:
        name = context.command.name or ""
        print(f"{name} version {version(name)}")
        raise typer.Exit


def _host_chooser(begin: Callable[[typer.Context], None]) -> Callable[..., None]:
    def choose_host(
        context: typer.Context,
        host_root: HostRoot = "",
        # Its callback ends the program.
        asks_version: Annotated[  # noqa: ARG001
            bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version and exit.")
        ] = False,
    ) -> None:
        context.obj = host_from_environment({ROOT_VARIABLE: host_root})
        begin(context)

    return choose_host


def add_command(program: typer.Typer, function: Callable[..., Any], *, written: str, **options: Any) -> None:
    """Add a command with the name of its function; in its examples, `written` is replaced by the program's name."""
    program.command(function.__name__, **options)(function)
    _respell(program.registered_commands[-1], written, str(program.info.name))


def add_commands(program: typer.Typer, group: typer.Typer, *, written: str, name: str = "") -> None:
    """Add the commands of a group to a program; examples as for `add_command`, with `name` if the program has none."""
    for command in group.registered_commands:
        program.registered_commands.append(_respelled(command, written, name or str(program.info.name)))


def add_group(program: typer.Typer, name: str, group: typer.Typer, *, written: str, hidden: bool = False) -> None:
    """Add a group of amd-ctk to a program; examples as for `add_command`."""
    own = copy(group)
    own.registered_commands = [
        _respelled(command, written, str(program.info.name)) for command in group.registered_commands
    ]
    program.add_typer(own, name=name, hidden=hidden)


def _respelled(command: Any, written: str, name: str) -> Any:
    own = copy(command)
    _respell(own, written, name)
    return own


def _respell(command: Any, written: str, name: str) -> None:
    command.epilog = command.epilog and command.epilog.replace(written, name)


def run_program(make: Callable[[], typer.Typer]) -> None:
    """Run a program as a process of its own, which ends with it."""

    def run() -> None:
        prepare_streams()
        make()()

    run_and_leave(run)
