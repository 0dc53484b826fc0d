"""The original toolkit's state is taken over once."""

from __future__ import annotations

import json
import os

import pytest

UUIDS = ("0xEA35F57CC80DEB35", "0x89CAA15875FF5A43", "0x6E32F10EFC982B4C", "0x12FE4F7FDAF06B9")


@pytest.fixture
def formerly(untracked):
    """Return a function that leaves the state of the original toolkit, with these GPUs exclusive."""

    def leave(*exclusive, enabled=True, uuids=UUIDS):
        path = untracked.host.path("/var/log/gpu-tracker.json")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        status = {
            str(number): {
                "uuid": uuid,
                "partitionType": "",
                "accessibility": int(number in exclusive),
                "containerIds": ["36b012bb34c9"],
            }
            for number, uuid in enumerate(uuids)
        }
        with open(path, "w") as file:
            json.dump({"enabled": enabled, "gpusStatus": status, "gpusInfo": {}}, file)
        return untracked.tracker

    return leave


def exclusive_gpus(tracker):
    return [gpu.number for gpu in tracker.status().gpus if gpu.accessibility == "exclusive"]


def test_what_was_exclusive_stays_so_and_containers_are_not_believed(formerly, untracked):
    tracker = formerly(1, 3)

    tracker.initialize()

    assert exclusive_gpus(tracker) == [1, 3]
    assert untracked.users() == {0: [], 1: [], 2: [], 3: []}


@pytest.mark.parametrize("operation", ["status", "enable", "is_enabled"])
def test_whatever_is_asked_first_takes_it_over(formerly, operation):
    tracker = formerly(2)

    getattr(tracker, operation)()

    assert exclusive_gpus(tracker) == [2]


def test_it_is_taken_over_once(formerly):
    tracker = formerly(1)
    tracker.initialize()
    tracker.reset()

    formerly(3).initialize()

    assert exclusive_gpus(tracker) == []


def test_initializing_wipes_nothing(machine):
    machine.tracker.set_accessibility("1", exclusive=True)
    machine.create("c1", [1])

    machine.tracker.initialize()

    assert exclusive_gpus(machine.tracker) == [1]
    assert machine.users()[1] == ["c1"]


def test_a_gpu_with_another_id_is_another_gpu(formerly):
    tracker = formerly(0, 1, uuids=(UUIDS[0], UUIDS[3], UUIDS[2], UUIDS[1]))

    tracker.initialize()

    assert exclusive_gpus(tracker) == [0]


def test_a_disabled_tracker_stays_disabled(formerly):
    tracker = formerly(enabled=False)

    tracker.initialize()

    assert tracker.is_enabled() is False


@pytest.mark.parametrize("content", ["", "{", "[]", '{"enabled":true}', '{"enabled":true,"gpusStatus":{"0":{}}}'])
def test_what_cannot_be_understood_is_left_alone(untracked, content):
    path = untracked.host.path("/var/log/gpu-tracker.json")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(content)

    untracked.tracker.initialize()

    assert untracked.tracker.is_enabled() is False
    assert untracked.tracker.enable() is True


def test_without_a_driver_it_waits(machine_of):
    machine = machine_of("no-driver")
    path = machine.host.path("/var/log/gpu-tracker.json")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write('{"enabled":true,"gpusStatus":{}}')

    machine.tracker.initialize()

    assert not machine.state.has_policy()
