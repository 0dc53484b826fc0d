"""A tracker that is enabled without a look at this machine's processes.

It looks for containers of the host among all of them, which takes longer than most tests: there are none.
"""

from __future__ import annotations

import os
import tempfile

from amd_gpu_tracker.life.processes import Processes
from amd_gpu_tracker.tracker import Tracker
from amdgpu_discovery.host import Host


def enable(host: Host, *, exclusive: bool = False) -> None:
    """Enable the tracker of a host that is new, with all GPUs shared, or all exclusive."""
    with tempfile.TemporaryDirectory() as proc:
        # Which boot and namespace it is, whom a container cannot be, and who asks.
        for name in ("sys", "self", "1", str(os.getpid())):
            os.symlink(f"/proc/{name}", f"{proc}/{name}")
        tracker = Tracker(host, processes=Processes(proc))
        tracker.enable()
        if exclusive:
            tracker.set_accessibility("all", exclusive=True)
