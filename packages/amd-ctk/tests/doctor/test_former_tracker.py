"""What doctor says of the GPU Tracker's state that AMD's toolkit 1.x left, and of one that a later version wrote."""

from __future__ import annotations

import json

import pytest

from amd_ctk.doctor.check import BAD, NOT_CHECKED, NOTE, OK
from amd_gpu_tracker.face.tracker import Tracker

FORMER = "/var/log/gpu-tracker.json"
POLICY = "/var/lib/amd-container-toolkit/gpu-tracker.json"
WHOLE = json.dumps({"enabled": True, "gpusStatus": {"0": {"uuid": "", "accessibility": 0}}, "gpusInfo": {}})


def tracker_finding(machine):
    (result,) = machine.examine(only=("tracker",))
    return result.finding


def test_a_state_that_will_be_taken_over_is_noted_and_its_fix_takes_it_over(machine):
    machine = machine()
    machine.write(FORMER, WHOLE)

    finding = tracker_finding(machine)
    assert (finding.state, finding.fix) == (NOTE, "sudo amd-ctk gpu-tracker status")

    Tracker(machine.host).status()
    assert tracker_finding(machine).state == OK


@pytest.mark.parametrize("content", ["", WHOLE[:20]])
def test_a_state_that_cannot_be_taken_over_is_bad_and_its_fix_repairs_it(machine, content):
    machine = machine()
    machine.write(FORMER, content)

    finding = tracker_finding(machine)
    assert (finding.state, finding.fix) == (BAD, "sudo amd-ctk gpu-tracker reset")
    assert f"{FORMER} cannot be converted, so GPUs are refused" in finding.words

    Tracker(machine.host).reset()
    assert tracker_finding(machine).state == OK


@pytest.mark.parametrize(
    ("path", "content", "state", "words"),
    [
        (FORMER, WHOLE, NOTE, "the GPU Tracker will convert the state of AMD's toolkit 1.x once there are GPUs"),
        (FORMER, "", NOTE, "the GPU Tracker will convert the state of AMD's toolkit 1.x once there are GPUs"),
        (POLICY, '{"version":1,"enabled":true,"gpus":[]}', NOT_CHECKED, "the GPU Tracker's state"),
        (POLICY, '{"version":1,"enabled":false,"gpus":[]}', OK, "the GPU Tracker's state is valid"),
    ],
)
def test_without_a_driver_doctor_does_not_call_the_state_understood(machine, path, content, state, words):
    machine = machine("no-driver")
    machine.write(path, content)

    finding = tracker_finding(machine)

    assert (finding.state, finding.words) == (state, words)


def test_nothing_is_to_be_repaired_where_a_later_toolkit_wrote_the_state(machine):
    machine = machine()
    machine.write(POLICY, '{"version":2,"enabled":true,"gpus":[]}')

    finding = tracker_finding(machine)

    assert (finding.state, finding.fix) == (BAD, "install the later toolkit again")
