"""A host whose GPUs are in use, as KFD, DRM and /proc say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from amdgpu_discovery.host import Host
from amdgpu_discovery.recording.profile import SimulatedProcess, SimulatedUse
from amdgpu_simulator import build_host, load_profile
from support.memory_limits import limit_memory

GIB = 1 << 30
WEB = "36b012bb34c96149a6ef5b28623e6e75cf9f71eb2b824b2c8f44e0449c7a1aa8"


@pytest.fixture
def used_host(tmp_path: Path) -> Callable[..., Host]:
    """Return a function that builds a host with these processes; without any, with a container and a display server."""

    def build(*processes: SimulatedProcess, profile: str = "mi210-4") -> Host:
        described = load_profile(profile).replace(processes=processes or (*web(), display_server()))
        for position in range(1, len(described.gpus)):
            described = described.with_gpu(position, busy_percent=93 if position == 2 else 0)
        return build_host(tmp_path / "used", described, bare=True)

    return build


@pytest.fixture
def limited_host(used_host: Callable[..., Host]) -> Host:
    """Return the host with a container, which the kernel limits on GPU 0 to 48 GiB; 42 of them count."""
    host = used_host()
    limit_memory(host, f"system.slice/docker-{WEB}.scope", "0000:03:00.0", limit=48, charged=42)
    return host


def web() -> tuple[SimulatedProcess, SimulatedProcess]:
    """Return two processes of a container of Docker on GPU 0, which the driver probes as the third."""
    cgroup = f"/system.slice/docker-{WEB}.scope"
    large = SimulatedUse(gpu=2, vram_bytes=40 * GIB, compute_units=52, sdma_us=700, client_id=7)
    small = SimulatedUse(gpu=2, vram_bytes=GIB - GIB // 10, client_id=8)
    return (
        SimulatedProcess(pid=3121, cgroup=cgroup, uses=(large,)),
        SimulatedProcess(pid=3177, cgroup=cgroup, uses=(small,)),
    )


def display_server() -> SimulatedProcess:
    """Return a process in no container, of which KFD knows nothing."""
    use = SimulatedUse(gpu=2, vram_bytes=GIB // 3, gtt_bytes=GIB // 8, client_id=9, in_kfd=False)
    return SimulatedProcess(pid=811, name="Xorg", uses=(use,))
