"""The root command: options that apply to all commands, and the report of their failures."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from amd_ctk.cli.tree import HELP_BY_COMMAND, HELP_BY_GROUP, Commands, has_command
from amd_ctk.cli.words import respell
from amdgpu_discovery.command_line.context import TRACKER_PROGRAM
from amdgpu_discovery.command_line.failures import report_failures
from amdgpu_discovery.command_line.plain_help import HostRoot, PlainTyper, RootCommand
from amdgpu_discovery.command_line.standard_output import is_terminal
from amdgpu_discovery.host import ROOT_VARIABLE, Host, host_from_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from amd_gpu_tracker.cli import CommandProgram

# The help begins with them.
EXAMPLES = ("amd-ctk run --count=1 --wait -- python3 train.py", "amd-ctk top", "sudo amd-ctk doctor")
OPTIONS = "Options: --version, --simulate PROFILE, --debug, --install-completion, --help"
# The words of the command line, in the context's `meta`.
WORDS = f"{__name__}.words"
# Typer 0.28 has its own copy of Click, earlier versions import Click.
USAGE_ERROR: Any = typer.BadParameter.__base__


class RootGroup(RootCommand):
    """The root command. It alone reports the failures of all commands, with one sentence and an exit code."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands: Any = Commands()

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as Typer calls it
        """Return the names of the commands."""
        return list(self.commands)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help: examples, then the commands without importing their modules, on one screen."""
        self.format_usage(ctx, formatter)
        formatter.write(f"{self.help}. Examples:\n")
        formatter.write("".join(f"  {each}\n" for each in EXAMPLES))
        formatter.write("\n")
        widest = max(map(len, HELP_BY_COMMAND))
        for group, commands in HELP_BY_GROUP.items():
            formatter.write(f"{group}:\n")
            lines = (f"  {name:<{widest}}  {_described(name, text)}\n" for name, text in commands.items())
            formatter.write("".join(lines))
        formatter.write(f"{OPTIONS}\n")

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line. It may be spelled as the original toolkit spells it."""
        # Typer handles options such as --help here.
        words: list[str] = report_failures(lambda: respell(self, args))
        read: list[str] = report_failures(lambda: _explained(words, super(RootGroup, self).parse_args, ctx, [*words]))
        ctx.meta[WORDS] = words
        return read

    def invoke(self, ctx: Any) -> Any:
        """Run the command. If it fails as expected, print one sentence and exit."""
        return report_failures(lambda: self._invoke(ctx), with_trace=bool(ctx.params.get("debug")))

    def _invoke(self, ctx: Any) -> Any:
        return _explained(ctx.meta[WORDS], super().invoke, ctx)


app = PlainTyper(
    name="amd-ctk",
    cls=RootGroup,
    help="Tool to configure AMD Container Toolkit",
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _described(name: str, text: str) -> str:
    return text.rstrip(".") + ("" if has_command(name) else " (not installed)")


def _explained(words: list[str], call: Callable[..., Any], *args: Any) -> Any:
    """Call a function of Typer. If it refuses the words of the command line, its error says what to write."""
    try:
        return call(*args)
    except USAGE_ERROR as error:
        # Only wrong words need this.
        from amd_ctk.cli.instead import explain_words

        _suggest_begun_option(error)
        explain_words(error, words)
        raise


def _suggest_begun_option(error: Any) -> None:
    """Suggest only --gpus for --gpu. Click also suggests options that are only similar, such as --output."""
    similar = getattr(error, "possibilities", None) or ()
    error.possibilities = [name for name in similar if name.startswith(error.option_name)] or similar


def _offer_profiles(incomplete: str) -> list[str]:
    # Only the TAB key needs this.
    from amd_ctk.companions import SIMULATOR, is_installed

    if not is_installed(SIMULATOR):
        return []
    from amdgpu_simulator import profile_names

    return [name for name in profile_names() if name.startswith(incomplete)]


def _print_version(context: typer.Context, asked: bool) -> None:
    # The TAB key parses the line too.
    if asked and not context.resilient_parsing:
        from amd_ctk.build import print_version

        print_version()
        raise typer.Exit


@app.callback()
def choose_host(
    context: typer.Context,
    host_root: HostRoot = "",
    # The callback of --version ends the program.
    asks_version: Annotated[  # noqa: ARG001
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version and exit."),
    ] = False,
    simulate: Annotated[
        str,
        typer.Option(
            "--simulate",
            metavar="PROFILE",
            autocompletion=_offer_profiles,
            help="Work on a simulated host, such as mi300x-8, which is forgotten when the command ends.",
        ),
    ] = "",
    # RootGroup reads this. The original toolkit has the same global option.
    debug: Annotated[  # noqa: ARG001
        bool, typer.Option("--debug", "-d", help="Show a stack trace on failure.")
    ] = False,
) -> None:
    """Tool to configure AMD Container Toolkit."""
    context.obj = _simulated(context, simulate) if simulate else host_from_environment({ROOT_VARIABLE: host_root})
    context.meta[TRACKER_PROGRAM] = _program_of_tracker
    if context.invoked_subcommand is not None:
        return
    if is_terminal():
        from amd_ctk.gpus.overview import print_overview

        print_overview(context.obj)
    else:
        print(context.get_help())


def _program_of_tracker(host: Host) -> CommandProgram:
    from amd_ctk.cli.gpu_tracker import CtkProgram

    return CtkProgram(host)


def _simulated(context: typer.Context, profile: str) -> Host:
    """Return a simulated host that lasts as long as the command."""
    from tempfile import TemporaryDirectory

    from amd_ctk.companions import SIMULATOR, require

    require(SIMULATOR)
    from amdgpu_simulator import build_host

    directory = TemporaryDirectory(prefix="amd-ctk-")
    context.call_on_close(directory.cleanup)
    return build_host(directory.name, profile)
