"""What doctor says of GPUs that are sick, suspect, lost or drained."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from amd_ctk.doctor.bundle.read import parse_facts
from amd_ctk.doctor.bundle.write import format_facts
from amd_ctk.doctor.facts.gpus import GpuCondition, read_conditions
from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_simulator import build_host

SICK = GpuCondition(number=6, state="sick", reason="reading gpu_busy_percent ends with an I/O error", is_sick=True)
SUSPECT = GpuCondition(number=3, state="suspect", reason="1 page of its memory is retired")
LOST = GpuCondition(number=1, state="lost", reason="PCI 0000:63:00.0 left the bus")
DRAINED = GpuCondition(number=5, state="drained", reason="fan swap")
DIRTY = GpuCondition(number=4, state="dirty", reason="process 977 (python3 of carol) of the ended job train uses it")
LEAKED = GpuCondition(number=2, state="in use", reason="leaked: 9 MiB that no process holds", has_leaked=True)


@pytest.mark.parametrize(
    ("conditions", "check", "expected"),
    [
        (
            (SUSPECT, SICK),
            "gpu-health",
            (
                "bad",
                "GPU 6 is sick: reading gpu_busy_percent ends with an I/O error",
                "sudo dmesg | grep amdgpu, then reset the GPU or reboot",
            ),
        ),
        (
            (SUSPECT,),
            "gpu-health",
            ("note", "GPU 3 is suspect: 1 page of its memory is retired", "sudo amd-ctk gpu-tracker drain 3"),
        ),
        (
            (LOST, LOST.replace(number=2)),
            "gpu-lost",
            ("bad", "GPUs 1, 2 are lost: PCI 0000:63:00.0 left the bus", "sudo amd-ctk gpu-tracker forget 1,2"),
        ),
        (
            (SUSPECT, LEAKED),
            "gpu-leaked",
            (
                "note",
                "GPU 2 is in use: leaked: 9 MiB that no process holds",
                "reset the GPU once nothing uses its board, or reboot",
            ),
        ),
        (
            (LEAKED, DIRTY),
            "gpu-dirty",
            (
                "bad",
                "GPU 4 is dirty: process 977 (python3 of carol) of the ended job train uses it",
                "sudo amd-ctk gpu clean 4",
            ),
        ),
        (
            (DRAINED, DRAINED.replace(number=7, state="draining", reason="")),
            "gpu-drained",
            ("note", "GPU 5 is drained: fan swap; GPU 7 is draining", "sudo amd-ctk gpu-tracker undrain 5,7"),
        ),
    ],
)
def test_a_condition_is_reported_with_its_reason_and_what_ends_it(machine, conditions, check, expected):
    made = machine()
    made.change = lambda facts: facts.replace(conditions=conditions)

    (result,) = made.examine(only=[check])

    assert (result.finding.state, result.finding.words, result.finding.fix) == expected


@pytest.mark.parametrize("state", ["sick", "drained"])
def test_a_driver_that_gave_up_a_gpu_is_not_said_to_answer_for_all(machine, state):
    made = machine()

    assert [each.finding.state for each in made.examine(only=["gpu-state"])] == ["ok"]
    made.change = lambda facts: facts.replace(conditions=(SICK.replace(state=state),))
    assert made.examine(only=["gpu-state"]) == []


def test_memory_that_no_process_holds_is_a_condition(tmp_path, monkeypatch):
    host = build_host(tmp_path / "host", "mi300x-8", bare=True)
    first = find_gpus(host)[0].pci_address
    used = host.path(f"/sys/module/amdgpu/drivers/pci:amdgpu/{first}/mem_info_vram_used")
    Path(used).write_text(f"{181198 * 2**20}\n")
    # The host's own processes are known: there are none.
    Path(host.path("/proc")).mkdir()
    monkeypatch.setattr("posix.geteuid", lambda: 0)
    assert read_conditions(host) == ()
    # Root saw it a minute ago.
    seen = Path(host.path("/run/amd-container-toolkit/gpu-tracker-unheld.json"))
    (key,) = json.loads(seen.read_text())
    seen.write_text(json.dumps({key: time.clock_gettime(time.CLOCK_BOOTTIME) - 60}))

    (found,) = read_conditions(host)

    assert (found.number, found.state, found.has_leaked) == (0, "in use", True)


def test_a_drained_gpu_may_be_sick(tmp_path):
    host = build_host(tmp_path / "host", "mi210-4", bare=True)
    Tracker(host).enable()
    Tracker(host).drain("1-2", reason="fan swap")
    address = locate_gpus(host)[1].pci_address
    # Where a process has nothing mapped, reading its memory ends with EIO.
    path = host.path(f"/sys/module/amdgpu/drivers/pci:amdgpu/{address}/gpu_busy_percent")
    os.symlink("/proc/self/mem", path)

    assert [(each.number, each.state, each.is_sick) for each in read_conditions(host)] == [
        (1, "drained", True),
        (2, "drained", False),
    ]


def test_a_bundle_has_the_conditions(machine):
    facts = machine().facts().replace(conditions=(SICK, DRAINED))

    assert parse_facts(format_facts(facts, with_serials=False)).conditions == (SICK, DRAINED)
