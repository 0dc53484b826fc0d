"""What a job leaves on a GPU, as the driver then shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.usage.kfd_processes import ProcessUse, read_kfd_uses
from amdgpu_simulator.hosts.build import build_host
from amdgpu_simulator.runs.breaking import CannotBreak, break_gpu


def attribute(host, gpu, name):
    return Path(host.path(f"/sys/bus/pci/devices/{gpu.pci_address}/{name}")).read_text().strip()


def test_leaked_memory_is_in_use_and_no_process_holds_it(tmp_path):
    host = build_host(tmp_path, "mi210-4")

    break_gpu(host, 1, "leaked")

    gpus = find_gpus(host)
    assert attribute(host, gpus[1], "mem_info_vram_used") == "61832429568"
    assert attribute(host, gpus[0], "mem_info_vram_used") == "10485760"
    assert read_kfd_uses(host, gpus) == []


def test_an_orphan_uses_its_gpu_only(tmp_path):
    host = build_host(tmp_path, "mi210-4")

    break_gpu(host, 1, "orphan")
    break_gpu(host, 2, "orphan")

    assert read_kfd_uses(host, find_gpus(host)) == [
        ProcessUse(pid=4194301, gpu=2, vram_bytes=9 << 30),
        ProcessUse(pid=4194302, gpu=1, vram_bytes=9 << 30),
    ]


def test_a_dirty_mode_changes_the_memory_mode_of_one_board(tmp_path):
    host = build_host(tmp_path, "mi300x-8")

    break_gpu(host, 3, "dirty-mode")

    modes = [each.memory_partition for each in find_gpus(host)]
    assert modes == ["NPS1", "NPS1", "NPS1", "NPS4", "NPS1", "NPS1", "NPS1", "NPS1"]


def test_hardware_without_modes_gets_no_dirty_mode(tmp_path):
    host = build_host(tmp_path, "mi210-4")

    with pytest.raises(CannotBreak) as refusal:
        break_gpu(host, 0, "dirty-mode")

    assert str(refusal.value) == "GPU 0 has no partition modes (simulate mi300x-8, for example)"
