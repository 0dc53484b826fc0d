"""Commands that packages, and containers of AMD's original toolkit, call; help does not show them."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from amd_gpu_tracker.cli.context import in_brackets, print_note, tracker_of


def initialize(context: typer.Context) -> None:
    """Take over the state of the original toolkit; packages do this when they are installed."""
    tracker_of(context).initialize(tell=print_note)


def release(context: typer.Context, container_id: Annotated[str, typer.Argument(metavar="CONTAINER_ID")]) -> None:
    """Give back the GPUs of a container that is gone, as containers of the original toolkit ask in their hooks."""
    numbers = tracker_of(context).release(container_id)
    print(f"Released GPUs {in_brackets(numbers)} used by container {container_id}", file=sys.stderr)
