"""Whether a host shares its GPUs with people, which needs amd-gpu-sharing."""

from __future__ import annotations

from contextlib import suppress

from amd_device_spec.settings import read_settings
from amd_gpu_tracker import Tracker
from amdgpu_discovery.errors import ToolkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amdgpu_discovery.host import Host

# amd-gpu-sharing keeps the tickets of waiting jobs there.
WAITING = "/run/amd-container-toolkit/waiting"
TICKET = ".json"


def needs_sharing(host: Host) -> bool:
    """Return whether a host has rules for people, jobs that wait, or reservations with an end."""
    # Settings and state that cannot be read have messages of their own.
    with suppress(ToolkitError, OSError):
        if read_settings(host).users:
            return True
    with suppress(ToolkitError, OSError):
        if any(name.endswith(TICKET) for name in host.names(WAITING)):
            return True
        return any(job.until is not None for job in Tracker(host).jobs())
    return False
