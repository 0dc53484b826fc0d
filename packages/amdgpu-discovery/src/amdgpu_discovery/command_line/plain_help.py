"""What the command lines of `amd-gpu-tracker` and `amd-ctk` share: plain help in one column, and completion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import typer.core

from amdgpu_discovery.command_line.completion_scripts import answer_completion
from amdgpu_discovery.host import ROOT_VARIABLE

# Of each program, for all of its commands.
HostRoot = Annotated[
    str, typer.Option(envvar=ROOT_VARIABLE, hidden=True, help="Work on the simulated host in this directory.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would change, without changing it.")]
NOTHING_CHANGED = "Nothing changed"
NOTHING_WOULD_CHANGE = "Nothing would change"
Command = TypeVar("Command", bound=Callable[..., Any])


def examples(*lines: str) -> Callable[[Command], Command]:
    """Add examples to the end of a command's help, and to its part of the manual page."""

    def add(command: Command) -> Command:
        command.__dict__["examples"] = lines
        return command

    return add


def format_examples(lines: Sequence[str]) -> str:
    """Return examples as the end of a help."""
    # Typer keeps the lines of a paragraph that begins with this.
    return "\n".join(["\b", "Examples:", *lines])


class PlainCommand(typer.core.TyperCommand):
    """A command whose usage shows a required argument as GPUS; Typer 0.28 writes {GPUS}."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words after the command's name."""
        return [piece.removeprefix("{").removesuffix("}") for piece in super().collect_usage_pieces(ctx)]


class WaitCommand(PlainCommand):
    """A command whose option `--wait` takes a value only after an equals sign."""

    optional_values = ("--wait",)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line; `--wait` alone is `--wait=`."""
        return super().parse_args(ctx, [f"{arg}=" if arg in self.optional_values else arg for arg in args])


class PlainTyper(typer.Typer):
    """Commands with help in plain text, as scripts and man pages need it, and with ordinary tracebacks."""

    def __init__(self, **options: Any) -> None:
        super().__init__(rich_markup_mode=None, pretty_exceptions_enable=False, **options)

    def command(
        self, name: str | None = None, *, cls: type[typer.core.TyperCommand] | None = PlainCommand, **options: Any
    ) -> Callable[..., Any]:
        """Add a command with its examples; `cls` and `options` are those of Typer."""

        def add(command: Command) -> Command:
            lines = command.__dict__.get("examples", ())
            epilog = format_examples(lines) if lines else None
            return super(PlainTyper, self).command(name, cls=cls, epilog=epilog, **options)(command)

        return add


class RootCommand(typer.core.TyperGroup):
    """The root command of a program: it also prints and installs the completion scripts."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line."""
        # TAB completion parses the line as well.
        if ctx.resilient_parsing:
            _offer_plain_help()
        else:
            answer_completion(self, ctx.info_name or "", args)
        return super().parse_args(ctx, args)


def _offer_plain_help() -> None:
    """Let TAB show help as it is; Typer draws it with Rich's Markdown, for which packages carry no modules."""
    from typer import _completion_classes

    vars(_completion_classes)["_sanitize_help_text"] = str
