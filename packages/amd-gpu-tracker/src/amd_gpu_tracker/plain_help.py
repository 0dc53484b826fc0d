"""Make help texts plain, in `amd-gpu-tracker` and `amd-ctk`; importing this module is enough."""

from __future__ import annotations

import typer.core

# Typer 0.20 asks rich to escape help that is plain; packages have rich without the libraries it would need for that.
typer.core.HAS_RICH = False

_make_metavar = typer.core.TyperArgument.make_metavar


def _without_braces(argument: object, *words: object, **options: object) -> str:
    """Return what an argument is called in help; Typer 0.28 writes those that are required as {GPUS}."""
    return _make_metavar(argument, *words, **options).removeprefix("{").removesuffix("}")  # type: ignore[arg-type]


typer.core.TyperArgument.make_metavar = _without_braces  # type: ignore[assignment,method-assign]
