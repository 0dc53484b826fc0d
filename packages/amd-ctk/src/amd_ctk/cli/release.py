"""amd-ctk release: give reserved GPUs back."""

from __future__ import annotations

from typing import Annotated

import typer

from amd_ctk.cli.context import host_to_change


def release(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the reservation.")],
    *,
    user: Annotated[str, typer.Option(metavar="USER", help="Owner of the reservation; only for root.")] = "",
) -> None:
    """Give reserved GPUs back before their time is over. A running command keeps them until it ends."""
    from amd_gpu_tracker.service import Service
    from amdgpu_discovery.people import find_user

    Service(host_to_change(context)).release(name, find_user(user))
    print(f"The reservation {name} has ended")
