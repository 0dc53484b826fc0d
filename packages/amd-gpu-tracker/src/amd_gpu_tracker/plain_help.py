"""What the command lines of `amd-gpu-tracker` and `amd-ctk` share.

Importing this module makes help texts plain.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer.core

from amd_gpu_tracker.shells.scripts import use_scripts

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would change, without changing it.")]
NOTHING_CHANGED = "Nothing changed"
NOTHING_WOULD_CHANGE = "Nothing would change"

# Typer 0.20 asks rich to escape help that is plain; packages have rich without the libraries it would need for that.
typer.core.HAS_RICH = False

_make_metavar = typer.core.TyperArgument.make_metavar


def _without_braces(argument: object, *words: object, **options: object) -> str:
    """Return what an argument is called in help; Typer 0.28 writes those that are required as {GPUS}."""
    return _make_metavar(argument, *words, **options).removeprefix("{").removesuffix("}")  # type: ignore[arg-type]


typer.core.TyperArgument.make_metavar = _without_braces  # type: ignore[assignment,method-assign]


class RootCommand(typer.core.TyperGroup):
    """The root command of a program: it also prints and installs the completion scripts."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line."""
        use_scripts(self, ctx.info_name or "", args)
        return super().parse_args(ctx, args)
