"""A GPU on which an ended job has left something is given to nobody, until a look finds it clean."""

from __future__ import annotations

import re
import subprocess

import pytest

from amd_gpu_tracker import Tracker
from amd_gpu_tracker.book.drains import Drain, read_drains
from amd_gpu_tracker.claims.leftovers import describe_dirt, end_left, find_dirty, recheck, record_dirty
from amd_gpu_tracker.errors import GpusRefused
from amd_gpu_tracker.leases.processes import Processes
from amd_gpu_tracker.leases.use import GpuProcess
from amdgpu_discovery.choices.rules import ChoiceRules
from amdgpu_simulator import build_host
from amdgpu_simulator.runs.breaking import break_gpu
from support.enabled_tracker import enable

CLOCK = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")

pytestmark = pytest.mark.needs("root")


@pytest.fixture
def sleeping():
    """Return a process, as the kernel knows it."""
    started = subprocess.Popen(["sleep", "600"])
    yield Processes().find(started.pid)
    started.kill()
    started.wait()


def dirty(tracker, number, left, *, job="train"):
    """Record that a job has left a process on a GPU."""
    book = tracker.book
    tracker.reserve(str(number), name=job)
    lease = book.state.read_lease(book.state.lease_path(("", job)))
    tracker.release(job)
    key = lease.gpus[0]
    process = GpuProcess(pid=left.pid, program="python3", person="carol")
    record_dirty(book, describe_dirt(book.state, lease, {key: {left: process}}))
    return key


@pytest.fixture
def host(tmp_path):
    return build_host(tmp_path, "mi210-4")


@pytest.fixture
def tracker(host):
    enable(host)
    return Tracker(host)


def test_a_dirty_gpu_is_refused_with_what_was_left_and_what_helps(tracker, sleeping):
    dirty(tracker, 1, sleeping)

    with pytest.raises(GpusRefused) as refused:
        tracker.reserve("0-1", name="next")

    assert CLOCK.sub("THEN", str(refused.value)) == (
        f"GPU 1 is dirty since THEN: process {sleeping.pid} (python3 of carol) of the ended job train uses it"
        " ('sudo amd-ctk gpu clean GPUS' ends what is left, and the setting allow-dirty-gpus gives it out)"
    )
    assert tracker.reserve("free:1", name="next").numbers == (0,)


def test_a_gpu_is_clean_once_what_was_left_has_ended(tracker, sleeping):
    dirty(tracker, 1, sleeping)
    assert [gpu.state for gpu in tracker.states()][:2] == ["free", "dirty"]

    (found,) = find_dirty(tracker.book.state)
    assert end_left(1, found, Processes()).ended == (sleeping.pid,)

    assert [gpu.state for gpu in tracker.states()][:2] == ["free", "free"]
    assert tracker.reserve("1", name="next").numbers == (1,)


def test_a_setting_gives_dirty_gpus_out(tracker, host, sleeping):
    dirty(tracker, 1, sleeping)

    Tracker(host, rules=ChoiceRules(groups={}, gives_dirty=True)).states()

    assert read_drains(host) == ()


def test_a_process_with_another_start_or_of_another_user_is_not_ended(sleeping):
    other = sleeping.replace(start=sleeping.start - 1)
    reused = Drain(key="k", reason="", since=0.0, boot_id="b", job="train", left=(other,))
    of_a_user = Drain(key="k", reason="", since=0.0, boot_id="b", job="40001/train", left=(sleeping,))

    assert end_left(0, reused, Processes()).ended == (sleeping.pid,)
    assert Processes().is_running(sleeping)
    assert end_left(0, of_a_user, Processes()).going_on == (sleeping.pid,)
    assert Processes().is_running(sleeping)


def test_another_mode_makes_only_the_partitions_of_its_board_dirty(tmp_path):
    host = build_host(tmp_path, "mi308x-8-cpx")
    enable(host)
    tracker = Tracker(host)
    tracker.reserve("2-5", name="train")
    book = tracker.book
    lease = book.state.read_lease(book.state.lease_path(("", "train")))

    break_gpu(host, 4, "dirty-mode")

    found = describe_dirt(book.state, lease, {})
    assert [each.key for each in found] == list(lease.gpus[2:])
    assert {each.reason for each in found} == {
        "its partition mode is cpx_nps1, and was cpx_nps4 when GPUs were tracked"
    }
    record_dirty(book, found)
    assert recheck(book) == []
    break_gpu(host, 4, "dirty-mode")
    assert len(recheck(book)) == 2
