"""Enable a tracker without searching this machine's processes.

The search for containers on the host would take longer than most tests, and there are none.
"""

from __future__ import annotations

import os
import tempfile

from amd_gpu_tracker.face.tracker import Tracker
from amd_gpu_tracker.leases.processes import Processes
from amdgpu_discovery.host import Host


def enable(host: Host, *, exclusive: bool = False) -> None:
    """Enable the tracker of a new host, with all GPUs shared or all exclusive."""
    with tempfile.TemporaryDirectory() as proc:
        # The boot and the namespace, the first process, which no container can be, and the caller.
        for name in ("sys", "self", "1", str(os.getpid())):
            os.symlink(f"/proc/{name}", f"{proc}/{name}")
        tracker = Tracker(host, processes=Processes(proc))
        tracker.enable()
        if exclusive:
            tracker.set_accessibility("all", exclusive=True)
