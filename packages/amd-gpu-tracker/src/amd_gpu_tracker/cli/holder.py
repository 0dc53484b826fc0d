"""`holder`: whether an exclusive GPU belongs to one container or to a pod."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from amd_gpu_tracker.cli.context import preview, print_unchanged, tracker_of
from amdgpu_discovery.command_line.plain_help import DryRun, examples


class Holders(str, Enum):
    """Owner of an exclusive GPU: one container, or a whole pod."""

    container = "container"
    pod = "pod"


@examples("amd-gpu-tracker holder", "amd-gpu-tracker holder pod", "amd-gpu-tracker holder container")
def holder(
    context: typer.Context,
    kind: Annotated[
        Holders | None,
        typer.Argument(metavar="container|pod", help="Owner of an exclusive GPU: one container, or a whole pod."),
    ] = None,
    *,
    dry_run: DryRun = False,
) -> None:
    """Let the containers of a pod share exclusive GPUs.

    With 'pod', all containers of a pod that ask for an exclusive GPU by its number share it. Without an argument, show
    the setting.
    """
    tracker = tracker_of(context)
    before = Holders.pod if tracker.settings.is_exclusive_to_pods() else Holders.container
    if kind is None:
        print(f"An exclusive GPU belongs to one {before.value}")
    elif dry_run:
        preview(tracker, f"An exclusive GPU would belong to one {kind.value}", is_change=kind is not before)
    else:
        tracker.settings.set_exclusive_to_pods(shared=kind is Holders.pod)
        print(f"An exclusive GPU belongs to one {kind.value}")
        print_unchanged(is_change=kind is not before)
