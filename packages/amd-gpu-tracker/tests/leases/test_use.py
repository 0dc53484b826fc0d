"""From which amounts on a GPU counts as used."""

from __future__ import annotations

import pytest

from amd_gpu_tracker.leases.use import GpuLoad
from amdgpu_discovery.usage.totals import GpuTotals

MEBIBYTE = 1 << 20
LARGE, SMALL = 100 * 512 * MEBIBYTE, 16384 * MEBIBYTE


@pytest.mark.parametrize(
    ("total", "used", "is_used"),
    [
        (LARGE, 512 * MEBIBYTE, False),
        (LARGE, 512 * MEBIBYTE + 1, True),
        (SMALL, 256 * MEBIBYTE, False),
        (SMALL, 256 * MEBIBYTE + 1, True),
        (None, None, False),
    ],
)
def test_a_gpu_is_used_beyond_a_hundredth_of_its_memory_and_256_mib(total, used, is_used):
    assert GpuLoad(totals=GpuTotals(vram_total=total, vram_used=used)).is_used is is_used


@pytest.mark.parametrize(("of_kfd", "is_used"), [(256 * MEBIBYTE, False), (256 * MEBIBYTE + 1, True)])
def test_memory_that_kfd_counts_is_use_from_256_mib_on(of_kfd, is_used):
    assert GpuLoad(totals=GpuTotals(), kfd_vram=of_kfd).is_used is is_used
