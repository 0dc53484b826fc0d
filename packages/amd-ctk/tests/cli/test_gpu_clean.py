"""Whether the next job finds a GPU as it should be, and the end of what the last one left."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from types import SimpleNamespace

import pytest

from amd_ctk.gpus.clean import print_reset
from amd_gpu_tracker import Tracker
from amd_gpu_tracker.book.drains import Drain, this_boot, write_drains
from amd_gpu_tracker.errors import NotPermitted
from amd_gpu_tracker.leases.processes import Processes
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.recording.profile import SimulatedProcess, SimulatedUse
from amdgpu_simulator import build_host, load_profile
from amdgpu_simulator.runs.breaking import break_gpu
from support.enabled_tracker import enable
from support.kubelet import Kubelet
from support.other_user import become
from support.shared_host import put_ticket

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
                "processes": [
                    {
                        "pid": 4194302,
                        "program": "",
                        "person": "",
                        "vram_bytes": 9 << 30,
                        "limit_bytes": None,
                        "charged_bytes": None,
                    }
                ],
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


def test_a_reset_takes_no_gpu_from_a_desktop_that_uses_little_memory_of_it(host, amd_ctk):
    drawing = SimulatedUse(gpu=0, vram_bytes=1 << 20, in_kfd=False, client_id=8)
    desktop = SimulatedProcess(pid=811, name="Xorg", uses=(drawing,))
    enable(host(load_profile("mi210-4").replace(processes=(desktop,))))
    drained = amd_ctk("gpu-tracker", "drain", "all")

    answer = amd_ctk("gpu", "clean", "0-3", "--reset")

    assert (drained.returncode, answer.returncode, answer.stdout) == (0, 1, "")
    assert "which process 811 uses" in answer.stderr


def test_a_gpu_of_the_processor_is_not_reset(host, amd_ctk):
    host("strix-halo")

    answer = amd_ctk("gpu", "clean", "0", "--reset")

    assert (answer.returncode, answer.stderr) == (1, "GPU 0 is a part of the processor (reboot instead)\n")


def test_a_virtual_function_is_not_reset(made, amd_ctk):
    Tracker(made).drain("all")
    os.mkdir(made.path(f"/sys/bus/pci/devices/{locate_gpus(made)[1].pci_address}/physfn"))

    answer = amd_ctk("gpu", "clean", "1", "--reset")

    assert (answer.returncode, answer.stderr) == (1, "GPU 1 is a virtual function (its host can reset it)\n")


def test_a_gpu_whose_hive_is_unknown_is_not_reset(host, amd_ctk):
    made = host(load_profile("mi300x-8").with_gpu(1, hive_id=0))
    enable(made)
    Tracker(made).drain("all")

    answer = amd_ctk("gpu", "clean", "1", "--reset")

    assert (answer.returncode, answer.stderr) == (1, "the XGMI hive of GPU 1 is unknown (reboot instead)\n")


def test_there_is_no_reset_of_a_gpu_for_which_a_job_waits(made, amd_ctk):
    Tracker(made).drain("all")
    put_ticket(made, "next", "1", [1])

    answer = amd_ctk("gpu", "clean", "1", "--reset")

    assert (answer.returncode, answer.stderr) == (
        1,
        "the job next waits for a GPU that a reset reaches (see 'amd-ctk queue')\n",
    )


@pytest.fixture
def node(run_amd_ctk):
    """Return eight MI300X of one hive, drained, with a kubelet and a function that runs amd-ctk there."""
    # The path of a socket has at most 107 bytes.
    directory = tempfile.mkdtemp(prefix="amd-")
    made = build_host(f"{directory}/h", "mi300x-8", bare=True)
    enable(made)
    Tracker(made).drain("all")
    kubelet = Kubelet(made)

    def said(*words):
        answer = run_amd_ctk(*words, AMD_CTK_HOST_ROOT=made.root)
        return answer.returncode, answer.stdout or answer.stderr.splitlines()[-1]

    yield SimpleNamespace(host=made, kubelet=kubelet, said=said)
    kubelet.close()
    shutil.rmtree(directory)


def test_a_reset_takes_no_gpu_from_a_pod_that_has_not_started(node):
    node.kubelet.devices = (str(locate_gpus(node.host)[5].pci_address),)

    refused = node.said("gpu", "clean", "1", "--reset")

    hint = "(drain these GPUs, and wait until nothing uses them)"
    assert refused == (1, f"a reset of GPU 1 reaches GPU 5, which kubelet has given to pod team-a/train-0 {hint}")
    node.kubelet.devices = ()
    assert node.said("gpu", "clean", "1", "--reset") == (
        0,
        f"sudo amd-smi reset --gpureset --gpu {locate_gpus(node.host)[1].pci_address}\n",
    )


def test_a_device_that_is_none_of_this_host_may_be_a_gpu_that_a_reset_reaches(node):
    node.kubelet.devices = ("0000:ff:00.0",)

    what = "pod team-a/train-0 has 0000:ff:00.0, which is none of this host's GPUs"
    hint = "(drain this node in Kubernetes first)"
    assert node.said("gpu", "clean", "1", "--reset") == (1, f"a pod may have a GPU that a reset reaches: {what} {hint}")


def test_there_is_no_reset_where_kubelet_does_not_say_which_pods_have_gpus(node):
    node.kubelet.close()

    code, text = node.said("gpu", "clean", "1", "--reset")

    assert code == 1
    assert re.fullmatch(
        r"a pod may have a GPU that a reset reaches: kubelet does not tell which pods have GPUs: \S+kubelet.sock:"
        r" Connection refused \(see 'systemctl status kubelet'\) \(drain this node in Kubernetes first\)",
        text,
    )


def test_a_gpu_of_a_pod_that_has_not_started_is_reserved_for_the_check(node):
    Tracker(node.host).undrain("all")
    node.kubelet.devices = (str(locate_gpus(node.host)[1].pci_address),)

    is_reserved = "GPU 1 is reserved, so what is on it belongs to its holder\n"
    assert node.said("gpu", "check", "0-1") == (0, f"GPU 0 is clean\n{is_reserved}")


def test_a_user_does_not_see_who_has_gpus_and_gets_no_command_that_resets_one(made):
    Tracker(made).drain("all")
    child = os.fork()
    if not child:
        code = 1
        try:
            become(40001)
            print_reset(made, "1")
            code = 0
        except NotPermitted:
            code = 3
        finally:
            os._exit(code)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
