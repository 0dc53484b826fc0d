"""amd-ctk version."""

from __future__ import annotations

from typing import Annotated

import typer


def version(as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False) -> None:
    """Show the version."""
    from importlib.metadata import version as installed_version

    number = installed_version("amd-ctk")
    print(f'{{"version": "{number}"}}' if as_json else f"Version: {number}")
