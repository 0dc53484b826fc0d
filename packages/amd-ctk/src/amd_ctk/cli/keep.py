"""amd-ctk keep: have reserved GPUs for longer."""

from __future__ import annotations

from typing import Annotated

import typer

from amd_ctk.cli.context import host_to_change


def keep(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the reservation or job.")],
    duration: Annotated[str, typer.Argument(metavar="[DURATION]", help="How long from now: 30m, 4h or 2d.")] = "",
    *,
    user: Annotated[str, typer.Option(metavar="USER", help="Owner of the reservation or job; only for root.")] = "",
) -> None:
    """Keep reserved GPUs for longer.

    NAME is a reservation or job of 'amd-ctk queue list'. It lasts for at least DURATION from now, with every command
    that uses its GPUs. You can keep your own, up to the time that 'amd-ctk users allow' gives you. Root can keep
    anyone's, without a limit. With or without DURATION, its idle time starts again at 0.
    """
    from amd_ctk.job.service import keep as keep_gpus
    from amd_gpu_tracker.service import Service
    from amd_gpu_tracker.times import format_seconds, parse_at_most
    from amdgpu_discovery.people import find_user

    seconds = keep_gpus(host_to_change(context), name, find_user(user), parse_at_most(duration, Service.MOST_SECONDS))
    print(f"{name} ends in {format_seconds(seconds)}" if seconds else f"{name} has no time limit")
