"""amd-ctk cdi."""

from __future__ import annotations

import typer

app = typer.Typer(help="Container Device Interface related commands", no_args_is_help=True, rich_markup_mode=None)
