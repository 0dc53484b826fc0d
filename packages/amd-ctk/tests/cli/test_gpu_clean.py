"""Whether the next job finds a GPU as it should be, and the end of what the last one left."""

from __future__ import annotations

import json
import subprocess
import time

import pytest

from amd_gpu_tracker import Tracker
from amd_gpu_tracker.book.drains import Drain, this_boot, write_drains
from amd_gpu_tracker.leases.processes import Processes
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_simulator.runs.breaking import break_gpu
from support.enabled_tracker import enable

pytestmark = pytest.mark.needs("root")
ALL_CLEAN = "GPU 0 is clean\nGPU 1 is clean\nGPU 2 is clean\nGPU 3 is clean\n"


@pytest.fixture
def made(host):
    """Return four MI210 with the tracker enabled."""
    made = host()
    enable(made)
    return made


@pytest.fixture
def left(made):
    """Return a process that root's job train has left on GPU 1."""
    started = subprocess.Popen(["sleep", "600"])
    process = Processes().find(started.pid)
    why = f"process {started.pid} (sleep) of the ended job train uses it"
    key = locate_gpus(made)[1].key
    drain = Drain(key=key, reason=why, since=time.time(), boot_id=this_boot(), job="train", left=(process,))
    write_drains(made, [drain])
    yield started
    started.kill()
    started.wait()


def test_gpus_on_which_nothing_is_left_are_clean(made, amd_ctk):
    Tracker(made).reserve("2", name="train")

    answer = amd_ctk("gpu", "check")

    is_reserved = "GPU 2 is reserved, so what is on it belongs to its holder\n"
    assert (answer.returncode, answer.stdout) == (0, ALL_CLEAN.replace("GPU 2 is clean\n", is_reserved))


def test_a_process_of_the_last_job_fails_the_check(amd_ctk, left):
    answer = amd_ctk("gpu", "check", "0-1")

    assert (answer.returncode, answer.stdout) == (
        1,
        f"GPU 0 is clean\nGPU 1 is dirty: process {left.pid} (sleep) of the ended job train uses it\n",
    )


def test_the_check_prints_json(made, amd_ctk):
    break_gpu(made, 1, "orphan")

    answer = amd_ctk("gpu", "check", "1", "--json")

    assert answer.returncode == 1
    assert json.loads(answer.stdout) == {
        "gpus": [
            {
                "number": 1,
                "pci_address": str(locate_gpus(made)[1].pci_address),
                "is_clean": False,
                "state": "in use",
                "reason": "used by process 4194302 without a reservation",
                "processes": [{"pid": 4194302, "program": "", "person": "", "vram_bytes": 9 << 30}],
            }
        ]
    }


def test_clean_ends_what_a_job_has_left_and_nothing_else(made, amd_ctk, left):
    break_gpu(made, 2, "orphan")

    answer = amd_ctk("gpu", "clean", "1-2")

    assert left.wait() == -15
    assert answer.returncode == 1
    assert answer.stdout == (
        f"GPU 1: process {left.pid} of the ended job train has ended\n"
        "GPU 1 is clean\n"
        "GPU 2 is in use: used by process 4194301 without a reservation\n"
    )


def test_a_reset_is_only_printed_and_only_if_it_takes_no_gpu_from_others(host, amd_ctk):
    made = host("mi300x-8")
    enable(made)
    tracker = Tracker(made)
    tracker.reserve("5", name="train")

    def said():
        answer = amd_ctk("gpu", "clean", "1", "--reset")
        return answer.returncode, answer.stdout or answer.stderr

    hint = "(drain these GPUs, and wait until nothing uses them)\n"
    assert said() == (1, f"a reset of GPU 1 reaches GPU 0, which is not drained {hint}")
    tracker.drain("all")
    assert said() == (1, f"a reset of GPU 1 reaches GPU 5, which is reserved {hint}")
    tracker.release("train")
    assert said() == (0, f"sudo amd-smi reset --gpureset --gpu {locate_gpus(made)[1].pci_address}\n")


def test_a_gpu_of_the_processor_is_not_reset(host, amd_ctk):
    host("strix-halo")

    answer = amd_ctk("gpu", "clean", "0", "--reset")

    assert (answer.returncode, answer.stderr) == (1, "GPU 0 is a part of the processor (reboot instead)\n")
