"""What all groups of commands share."""

from __future__ import annotations

import typer


def command_group(help_text: str) -> typer.Typer:
    """Make a group that shows its help, and succeeds, where no command of it is named."""
    # Help is plain text in one column, as scripts and man pages want it.
    app = typer.Typer(help=help_text, invoke_without_command=True, rich_markup_mode=None)

    @app.callback()
    def show_help(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            print(context.get_help())

    return app
