"""Faults in the tracker's own files, as a value for `amd-ctk doctor`."""

from __future__ import annotations

import os

from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.errors import StateError
from amd_gpu_tracker.leases.lease_scan import scan_leases
from amd_gpu_tracker.leases.processes import Processes
from amd_gpu_tracker.leases.status import ContainerUse, read_status
from amdgpu_discovery.errors import ToolkitError, reason
from amdgpu_discovery.files import write_beside
from amdgpu_discovery.value import Value

# As large as a lease: on a full file system, files can be made but not written.
PROBE = b"\0" * 4096


class StateFaults(Value):
    """Faults in the tracker's files.

    Attributes:
        problem: Why the state cannot be used, "" if it can.
        is_later: Whether a later version of the toolkit wrote it.
        has_former: Whether AMD's toolkit 1.x left a state that has not been taken over yet.
        dead_leases: How many leases have ended.
        unwritable: Why no reservation can be written, "" if one can, or if the caller may not try.
        uses_by_number: The containers that use each GPU.
    """

    problem: str = ""
    is_later: bool = False
    has_former: bool = False
    dead_leases: int = 0
    unwritable: str = ""
    uses_by_number: dict[int, tuple[ContainerUse, ...]] = {}  # noqa: RUF012 - values are immutable, and it is never changed


def find_faults(state: State, processes: Processes) -> StateFaults:
    """Return the faults in the files of a state."""
    known = StateFaults(has_former=state.has_former_policy(), unwritable=_find_unwritable(state))
    try:
        status = read_status(state, processes)
        paths = state.lease_paths()
        leases = scan_leases(state, processes, paths)
    except ToolkitError as error:
        return known.replace(problem=error.message, is_later=isinstance(error, StateError) and error.is_later)
    return known.replace(
        dead_leases=len(paths) - len(leases.living) - len(leases.unreadable),
        uses_by_number={gpu.number: tuple(gpu.containers) for gpu in status.gpus if gpu.containers},
    )


def _find_unwritable(state: State) -> str:
    try:
        if os.path.isdir(state.run_directory):
            os.unlink(write_beside(f"{state.run_directory}/doctor", PROBE, keep_owner=False))
    except PermissionError:
        return ""
    except OSError as error:
        return f"files cannot be written to {state.run_directory}: {reason(error)}"
    return ""
