"""amd-ctk runtime."""

from __future__ import annotations

import typer

app = typer.Typer(help="runtime related commands for AMD Container Toolkit", no_args_is_help=True, rich_markup_mode=None)
