"""Two looks at the usage cost hardly more than one."""

from __future__ import annotations

from pathlib import Path

from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_discovery.recording.profile import SimulatedProcess, SimulatedUse
from amdgpu_discovery.usage import drm_clients


def test_the_second_reading_asks_the_processes_that_use_a_gpu(used_host, monkeypatch):
    use = SimulatedUse(gpu=2, vram_bytes=1 << 30, client_id=9, in_kfd=False)
    display_server = SimulatedProcess(pid=811, name="Xorg", uses=(use,))
    host = used_host(display_server, SimulatedProcess(pid=12, name="idle", uses=()))
    asked = []
    real = drm_clients._ProcessReader.read_clients
    monkeypatch.setattr(
        drm_clients._ProcessReader, "read_clients", lambda one: asked.append(Path(one._directory).name) or real(one)
    )

    usage = Tracker(host).usage_looks().read_twice(0)

    assert asked == ["12", "811", "811"]
    assert [len(gpu.users) for gpu in usage.gpus] == [1, 0, 0, 0]
