"""A process that cannot be entered as it is, is not entered."""

from __future__ import annotations

import os

import pytest

from amd_ctk.doctor.inside.child import NoAnswer, ask_inside
from amd_ctk.doctor.inside.process import read_process
from amd_gpu_tracker.life.processes import Processes

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root enters other processes")


@pytest.fixture
def myself():
    return read_process(Processes().myself())


def test_another_process_with_its_id_is_not_entered(myself):
    process = myself.replace(identity=myself.identity.replace(start=myself.identity.start - 1))

    with pytest.raises(NoAnswer) as failure:
        ask_inside(process, lambda _: {})

    assert failure.value.message == "it cannot be entered: its first process has ended"


def test_without_its_device_cgroup_nothing_is_tried(myself):
    with pytest.raises(NoAnswer) as failure:
        ask_inside(myself.replace(cgroups=()), lambda _: {})

    assert failure.value.message == "it cannot be entered: its device cgroup was not found"


def test_the_child_has_no_input_and_is_ended_first(myself):
    def look(_):
        with open("/proc/self/oom_score_adj") as file:
            return {"input": os.readlink("/proc/self/fd/0"), "oom": file.read().strip()}

    assert ask_inside(myself, look) == {"input": "/dev/null", "oom": "1000"}
