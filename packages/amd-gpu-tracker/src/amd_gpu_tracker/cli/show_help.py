"""`help`: the list of commands, or help for one command."""

from __future__ import annotations

from typing import Annotated

import typer

from amdgpu_discovery.command_line.plain_help import examples


@examples("amd-gpu-tracker help status")
def show_help(context: typer.Context, command: Annotated[str, typer.Argument(metavar="COMMAND")] = "") -> None:
    """Show a list of commands or help for one command."""
    group = context.parent
    if group is None:
        return
    commands = getattr(group.command, "commands", {})
    if command in commands:
        print(commands[command].get_help(type(context)(commands[command], info_name=command, parent=group)))
    else:
        print(group.get_help())
