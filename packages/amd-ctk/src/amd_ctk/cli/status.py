"""amd-ctk status: the state of every GPU, and who has it, once."""

from __future__ import annotations

from typing import Annotated

import typer

from amd_ctk.cli.context import host_of


def status(
    context: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Print once what every GPU does, and who has it.

    'amd-ctk top' follows it.
    """
    from amd_ctk.listing import looking_tracker
    from amd_gpu_tracker.state_table import print_states, print_states_json

    tracker = looking_tracker(host_of(context))
    if as_json:
        print_states_json(tracker)
    else:
        print_states(tracker)
