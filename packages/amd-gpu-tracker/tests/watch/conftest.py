"""A host on which the kernel limits the memory of a container that uses no GPU yet."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from amd_gpu_tracker.book.lease import LARGEST_PID, Lease, ProcessId, boot_offset
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.face.tracker import Tracker
from amd_gpu_tracker.leases.processes import Processes
from amdgpu_discovery.host import Host
from amdgpu_discovery.recording.profile import SimulatedProcess
from amdgpu_simulator import build_host, load_profile
from support.memory_limits import limit_memory

IDLE = "c0ffee" + "0" * 58


@pytest.fixture
def idle_host(tmp_path: Path) -> Host:
    """Return a host with a container that has just got GPU 1 with a limit of 8 GiB, in the job `train` of user 1001.

    This process is its init. The runtime that made it has ended, and no start has written the init into the lease.
    """
    init = SimulatedProcess(pid=os.getpid(), cgroup=f"/system.slice/docker-{IDLE}.scope", uses=())
    host = build_host(tmp_path / "idle", load_profile("mi210-4").replace(processes=(init,)), bare=True)
    limit_memory(host, f"system.slice/docker-{IDLE}.scope", "0000:26:00.0", limit=8, charged=0)
    (tmp_path / "pid").write_text(str(os.getpid()))
    processes = Processes()
    Tracker(host).enable()
    State(host).prepare()
    State(host).write_lease(
        Lease(
            container_id=IDLE,
            bundle=str(tmp_path),
            creator=ProcessId(pid=LARGEST_PID, start=1),
            pid_file=str(tmp_path / "pid"),
            gpus=("0000:26:00.0/0",),
            boot_offset=boot_offset(),
            boot_id=processes.boot_id,
            namespace=processes.namespace,
            ways=("env",),
            since=time.time(),
            person=1001,
            reservation="1001/train",
            reservation_digest="1f",
        )
    )
    return host
