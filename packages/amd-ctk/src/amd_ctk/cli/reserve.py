"""amd-ctk reserve: GPUs for later use by hand."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from amd_ctk.cli.context import host_to_change


def reserve(
    context: typer.Context,
    gpus: Annotated[str, typer.Argument(metavar="REQUEST", help="Which GPUs, or how many, as in AMD_VISIBLE_DEVICES.")],
    *,
    duration: Annotated[str, typer.Option("--for", metavar="DURATION", help="How long: 30m, 4h or 2d.")],
    name: Annotated[str, typer.Option(help="Name of the reservation.")] = "",
) -> None:
    """Reserve GPUs for a limited time.

    'amd-ctk run --reservation=NAME' runs commands, which share these GPUs. 'amd-ctk release NAME' gives them back
    earlier, and 'amd-ctk keep NAME 2h' keeps them for longer. Running commands get a warning 10 minutes before the
    reservation ends. At its end they get SIGTERM, and SIGKILL 30 seconds later.
    """
    from amd_ctk.job.listing import ended_by_restart
    from amd_ctk.job.service import got
    from amd_ctk.job.service import reserve as reserve_gpus
    from amd_ctk.stderr import say
    from amd_gpu_tracker.service import Service
    from amd_gpu_tracker.times import format_seconds, parse_at_most

    chosen = name or f"reservation-{os.getpid()}"
    seconds = parse_at_most(duration, Service.MOST_SECONDS)
    host = host_to_change(context)
    for sentence in ended_by_restart(host):
        say(sentence)
    numbers = reserve_gpus(host, chosen, gpus, seconds)
    print(f"{got(numbers, None)} reserved as {chosen} for {format_seconds(seconds)}")
