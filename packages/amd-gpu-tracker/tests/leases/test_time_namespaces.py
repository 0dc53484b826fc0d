"""In a time namespace the kernel shows other times since boot, and other starts of processes (time_namespaces(7))."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from amd_gpu_tracker import Tracker
from amd_gpu_tracker.book.lease import TICKS_PER_SECOND, since_boot
from amd_gpu_tracker.leases.processes import Processes
from amdgpu_simulator import build_host

DAYS = 100
SECONDS = DAYS * 86400
INSIDE = ("unshare", "--user", "--map-root-user", "--time", "--fork", f"--boottime={SECONDS}")

pytestmark = pytest.mark.skipif(
    subprocess.run([*INSIDE, "true"], capture_output=True, check=False).returncode != 0,
    reason="this machine lets nobody make a time namespace",
)


def ask_inside(code, *words):
    """Return what a Python prints as JSON whose time since boot is ahead by 100 days."""
    asked = f"import json, sys, time\nfrom amd_gpu_tracker import Tracker\n{code}"
    return json.loads(subprocess.run([*INSIDE, sys.executable, "-c", asked, *words], stdout=-1, check=True).stdout)


def test_a_process_has_one_start_and_the_machine_one_time_in_every_time_namespace():
    code = (
        "from amd_gpu_tracker.leases.processes import Processes\nfrom amd_gpu_tracker.book.lease import since_boot\n"
        "process = Processes().find(int(sys.argv[1]))\n"
        "print(json.dumps([process.start, since_boot(), time.clock_gettime(time.CLOCK_BOOTTIME)]))"
    )
    myself, now = Processes().myself(), since_boot()

    start, moment, shown = ask_inside(code, str(myself.pid))

    assert start == myself.start
    assert now <= moment < now + SECONDS
    assert shown >= now + SECONDS


def test_a_start_that_a_runtime_wrote_down_in_the_same_time_namespace_is_known():
    myself = Processes().myself()
    shown = [myself.replace(start=myself.start + ahead * TICKS_PER_SECOND) for ahead in (SECONDS, SECONDS + 1)]
    code = (
        "from amd_gpu_tracker.leases.processes import Processes, ProcessId\npid, *starts = map(int, sys.argv[1:])\n"
        "print(json.dumps([Processes().is_running(ProcessId(pid=pid, start=start)) for start in starts]))"
    )

    said = ask_inside(code, str(myself.pid), *(str(each.start) for each in shown))

    assert said == [True, False]
    assert not Processes().is_running(shown[0])


def test_a_gpu_is_not_given_again_by_a_program_that_sees_another_time(tmp_path):
    host = build_host(tmp_path / "host", "mi210-4")
    tracker = Tracker(host)
    tracker.enable()
    tracker.set_accessibility("all", exclusive=True)
    code = (
        "from amdgpu_discovery.host import Host\nfrom amd_gpu_tracker.errors import GpusRefused\n"
        "tracker = Tracker(Host(sys.argv[1]))\n"
        "try:\n    tracker.reserve('0', name='other')\n    said = 'was given'\n"
        "except GpusRefused as error:\n    said = error.message\n"
        "print(json.dumps([said, [use.container_id for use in tracker.status().gpus[0].containers]]))"
    )

    with tracker.reserve("0", name="train"):
        said = ask_inside(code, host.root)

    assert said == ["GPUs [0] are exclusive and already in use\nGPU 0 is in use by job train", ["train"]]
