"""amd-gpu-sharing, which has the line of waiting jobs and the service for people. The tracker works without it."""

from __future__ import annotations

from amd_gpu_tracker.errors import SharingMissing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PACKAGE = "amd_gpu_sharing"


def find_sharing() -> Any:
    """Return what amd-gpu-sharing does for the tracker, None if it is not installed."""
    try:
        # By name: the tracker must not depend on it.
        return __import__(f"{PACKAGE}.for_tracker", fromlist=["for_tracker"])
    except ModuleNotFoundError as error:
        if error.name != PACKAGE:
            raise
        return None


def require_sharing() -> Any:
    """Return the same; SharingMissing if it is not installed."""
    found = find_sharing()
    if found is None:
        raise SharingMissing
    return found
