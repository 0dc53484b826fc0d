"""What kernels from 5.14 to 7 print; each file in `kernels` names its sources."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.usage.drm_clients import DrmClient, parse_fdinfo
from amdgpu_discovery.usage.kfd_processes import ProcessUse
from amdgpu_discovery.usage.reading import read_usage

KERNELS = {path.stem: json.loads(path.read_text()) for path in (Path(__file__).parent / "kernels").iterdir()}


@pytest.fixture(params=sorted(KERNELS))
def kernel(request: pytest.FixtureRequest) -> dict[str, Any]:
    return KERNELS[request.param]


def test_the_words_of_every_kernel_are_understood(kernel):
    expected = kernel["expected"]

    assert parse_fdinfo(kernel["fdinfo"].encode()) == DrmClient(
        pci_address="0000:03:00.0",
        client_id=expected["client_id"],
        vram_bytes=expected["vram_bytes"],
        gtt_bytes=expected["gtt_bytes"],
        engines=tuple(map(tuple, expected["engines"])),
    )


def test_a_process_of_every_kernel_counts_once_for_both_accounts(kernel, simulated, tmp_path):
    host = simulated("mi210-4")
    process = tmp_path / "proc" / "4242"
    for path, text in {"fdinfo/7": kernel["fdinfo"], "comm": "python\n"}.items():
        write(process / path, text)
    (process / "fd").mkdir()
    (process / "fd" / "7").symlink_to("/dev/dri/renderD130")
    for path, text in kernel["kfd"].items():
        write(Path(host.path("/sys/class/kfd/kfd/proc/4242"), path), text)

    reading = read_usage(host, find_gpus(host), proc=str(tmp_path / "proc"))

    assert reading.processes == (
        ProcessUse(
            pid=4242,
            gpu=0,
            vram_bytes=1 << 30,
            gtt_bytes=kernel["expected"]["gtt_bytes"],
            compute_units=52,
            sdma_us=90,
            engines=tuple(map(tuple, kernel["expected"]["engines"])),
        ),
    )


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
