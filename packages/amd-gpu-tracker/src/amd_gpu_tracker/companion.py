"""amd-gpu-sharing, which has the line of waiting jobs and the service for people. The tracker works without it."""

from __future__ import annotations

from amd_gpu_tracker.errors import SharingMissing
from amdgpu_discovery.files import exists

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from amd_gpu_tracker.book.state import State

PACKAGE = "amd_gpu_sharing"
# It keeps the tickets of waiting jobs there, below the tracker's directories in /run.
WAITING = "waiting"


def find_sharing() -> Any:
    """Return what amd-gpu-sharing does for the tracker, None if it is not installed."""
    try:
        # By name: the tracker must not depend on it.
        return __import__(f"{PACKAGE}.for_tracker", fromlist=["for_tracker"])
    except ModuleNotFoundError as error:
        if error.name != PACKAGE:
            raise
        return None


def find_line(*states: State) -> Any:
    """Return what amd-gpu-sharing knows of waiting jobs, None if none has waited since the machine started."""
    return find_sharing() if any(exists(f"{each.run_directory}/{WAITING}") for each in states) else None


def require_sharing() -> Any:
    """Return the same; SharingMissing if it is not installed."""
    found = find_sharing()
    if found is None:
        raise SharingMissing
    return found
