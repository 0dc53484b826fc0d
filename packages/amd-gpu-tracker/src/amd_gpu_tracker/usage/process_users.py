"""Tell which user has a process that is in no container."""

from __future__ import annotations

from amd_gpu_tracker.usage.containers import read_service_user
from amdgpu_discovery.usage.owners import read_real_uid


def find_process_user(proc: str, pid: int) -> int | None:
    """Return the user below whose service a process is, else its real uid; None where nothing tells."""
    user = read_service_user(proc, pid)
    return read_real_uid(proc, pid) if user is None else user
