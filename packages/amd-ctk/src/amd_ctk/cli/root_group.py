"""The root of the tree of commands: it makes the command that is named, and reports what fails below it."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from amd_ctk.cli.tree import HELP_BY_COMMAND, Commands
from amd_ctk.cli.words import respell
from amdgpu_discovery.errors import ToolkitError, reason


class RootGroup(TyperGroup):
    """The root command: every failure below it is reported here, and only here, with one sentence and an exit code."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands: Any = Commands()

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as Typer calls it
        """Return the names of the commands."""
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - as Typer calls it
        """Write the list of commands without making them."""
        width = formatter.width - 6 - max(map(len, HELP_BY_COMMAND))
        commands = [TyperCommand(name=name, help=text) for name, text in HELP_BY_COMMAND.items()]
        with formatter.section("Commands"):
            formatter.write_dl([(command.name, command.get_short_help_str(width)) for command in commands])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line, which may be spelt as the original takes it."""
        return super().parse_args(ctx, respell(self, args))

    def invoke(self, ctx: Any) -> Any:
        """Run the command; end the program with a sentence if it fails in an expected way."""
        try:
            answer = super().invoke(ctx)
            sys.stdout.flush()
        except ToolkitError as error:
            if ctx.params.get("debug"):
                _show_trace()
            print(_printable_lines(error), file=sys.stderr)
            raise typer.Exit(error.exit_code) from error
        except OSError as error:
            # Errors of named files are ToolkitErrors; what is left is standard output.
            if error.filename is not None:
                raise
            _give_up_answer(error)
        return answer


def _printable_lines(error: ToolkitError) -> str:
    from amd_gpu_tracker.records.plain_text import printable

    # Some repeat a word of a file that others wrote.
    return "\n".join(map(printable, str(error).split("\n")))


def _show_trace() -> None:
    import traceback

    traceback.print_exc()


def _give_up_answer(error: OSError) -> NoReturn:
    # Or the interpreter would try to write the same bytes again on its way out.
    sys.stdout = None
    if not isinstance(error, BrokenPipeError):
        print(f"the output cannot be written: {reason(error)}", file=sys.stderr)
    raise typer.Exit(1) from error
