"""`holder`: whether an exclusive GPU belongs to one container or to a pod."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from amd_gpu_tracker.cli.context import note_key, preview, print_unchanged, tracker_of
from amd_gpu_tracker.face.tracker import Tracker
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
    note_key(context, "holder", "exclusive-holder")
    tracker = tracker_of(context)
    if kind is None:
        print(f"An exclusive GPU belongs to one {find_holder(tracker)}")
    else:
        set_holder(tracker, kind.value, dry_run=dry_run)


def find_holder(tracker: Tracker) -> str:
    """Return what an exclusive GPU belongs to; StateError."""
    return "pod" if tracker.settings.is_exclusive_to_pods() else "container"


def set_holder(tracker: Tracker, kind: str, *, dry_run: bool) -> None:
    """Set what an exclusive GPU belongs to, or print what would change."""
    is_change = kind != find_holder(tracker)
    if dry_run:
        preview(tracker, f"An exclusive GPU would belong to one {kind}", is_change=is_change)
        return
    tracker.settings.set_exclusive_to_pods(shared=kind == Holders.pod.value)
    print(f"An exclusive GPU belongs to one {kind}")
    print_unchanged(is_change=is_change)
