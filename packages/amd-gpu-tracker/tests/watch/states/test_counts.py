"""How often GPUs were given, refused and taken back, for Prometheus."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from amd_gpu_tracker.book.state import REFUSALS, REPAIRS, STARTS
from amd_gpu_tracker.claims.chosen import reserve_chosen
from amd_gpu_tracker.claims.claim import Claim
from amd_gpu_tracker.claims.vram import MemoryChooser
from amd_gpu_tracker.errors import GpusRefused
from amdgpu_discovery.discover import find_gpus


def counts(machine):
    return [machine.state.read_count(event) for event in (STARTS, REFUSALS, REPAIRS)]


def test_starts_refusals_and_repairs_are_counted_since_the_machine_started(machine):
    assert counts(machine) == [0, 0, 0]

    machine.tracker.set_accessibility("0", exclusive=True)
    first = machine.create("c1", [0])
    with pytest.raises(GpusRefused):
        machine.create("c2", [0])
    assert counts(machine) == [1, 1, 0]

    machine.kill(first)
    machine.poststop("c1")
    assert counts(machine) == [1, 1, 0]

    machine.kill(machine.create("c3", [0]))
    machine.create("c4", [0])
    assert counts(machine) == [3, 1, 1]

    machine.boot()
    assert counts(machine) == [0, 0, 0]


def test_prometheus_gets_them_as_counters(machine, tmp_path):
    machine.create("c1", [0])
    file = tmp_path / "amd-gpu.prom"

    machine.tracker.recording.write_metrics(str(file), machine.tracker.usage_looks().read_twice(0), [], [])

    assert [line for line in file.read_text().splitlines() if "starts" in line or "refusals" in line] == [
        "# HELP amd_gpu_starts_total Containers and programs that were given GPUs since the machine started.",
        "# TYPE amd_gpu_starts_total counter",
        "amd_gpu_starts_total 1",
        "# HELP amd_gpu_refusals_total Containers and programs that were refused GPUs since the machine started.",
        "# TYPE amd_gpu_refusals_total counter",
        "amd_gpu_refusals_total 0",
    ]


@pytest.mark.parametrize("in_place", ["directory", "pipe", "full"])
def test_a_count_that_cannot_be_written_keeps_no_container_back(machine, in_place):
    path = Path(machine.state.run_directory, "starts.count")
    if in_place == "directory":
        path.mkdir()
    elif in_place == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/full")

    machine.create("c1", [0])

    assert machine.state.read_count(STARTS) == 0
    assert len(machine.lease_files()) == 1


def test_gpus_that_the_tracker_chose_are_counted_as_starts(machine):
    machine.tracker.reserve("auto:2", name="first")
    claim = Claim(
        holder=machine.holder("second", creator=machine.start_process()),
        wanted=(),
        ways=("swarm",),
        kinds=("VRAM",),
        vram_mb=1000,
    )
    reserve_chosen(machine.book, claim, MemoryChooser(claim, find_gpus(machine.host)))

    assert counts(machine) == [2, 0, 0]
