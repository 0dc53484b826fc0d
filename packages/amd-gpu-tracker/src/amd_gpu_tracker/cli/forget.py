"""`forget`: forgets lost GPUs."""

from __future__ import annotations

from typing import Annotated

import typer

from amd_gpu_tracker.cli.context import print_note, program_of, tracker_of
from amdgpu_discovery.command_line.plain_help import examples


@examples("amd-gpu-tracker forget 3")
def forget(
    context: typer.Context,
    gpus: Annotated[str, typer.Argument(metavar="GPUS", help="The numbers that lost GPUs had, or all.")],
) -> None:
    """Forget lost GPUs.

    Requests then mean the numbers that GPUs have now.
    """
    forgotten = tracker_of(context).gpus.forget(gpus)
    for number, address in forgotten.gpus:
        print(f"GPU {number} (PCI {address}) is forgotten")
    for new, old in forgotten.numbers.items():
        print(f"GPU {old} now has number {new}")
    for sentence in forgotten.said:
        print_note(sentence)
    program_of(context).follow_switch()
