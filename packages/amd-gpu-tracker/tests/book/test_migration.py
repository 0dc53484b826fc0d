"""The original toolkit's state is taken over once."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from amd_gpu_tracker.errors import GpusChanged, StateError
from amdgpu_discovery.errors import FileError

UUIDS = ("0xEA35F57CC80DEB35", "0x89CAA15875FF5A43", "0x6E32F10EFC982B4C", "0x12FE4F7FDAF06B9")


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def leave_text(host, text):
    """Leave what is to be the state of the original toolkit."""
    path = host.path("/var/log/gpu-tracker.json")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write(path, text)


def leave(host, document):
    leave_text(host, json.dumps(document))


def statuses(*exclusive, uuids, partition=""):
    """Return GPUs as the original wrote them down, these of them exclusive."""
    return {
        str(number): {
            "uuid": uuid,
            "partitionType": partition,
            "accessibility": int(number in exclusive),
            "containerIds": ["36b012bb34c9"],
        }
        for number, uuid in enumerate(uuids)
    }


@pytest.fixture
def formerly(untracked):
    """Return a function that leaves the state of the original toolkit, with these GPUs exclusive."""

    def leave_status(*exclusive, enabled=True, uuids=UUIDS):
        status = statuses(*exclusive, uuids=uuids)
        leave(untracked.host, {"enabled": enabled, "gpusStatus": status, "gpusInfo": {}})
        return untracked.tracker

    return leave_status


def exclusive_gpus(tracker):
    return [gpu.number for gpu in tracker.status().gpus if gpu.accessibility == "exclusive"]


def obstruct_history(machine):
    """Put a file where the directory of the history is to be; return its path."""
    path = machine.state.history_directory
    os.makedirs(os.path.dirname(path))
    Path(path).touch()
    return path


def recorded(tracker):
    """Return the containers in the history."""
    return sorted(used.container_id for used in tracker.history(since=0, until=1e11))


def test_exclusive_gpus_stay_exclusive_and_earlier_containers_are_not_taken_over(formerly, untracked):
    tracker = formerly(1, 3)

    tracker.initialize()

    assert exclusive_gpus(tracker) == [1, 3]
    assert untracked.users() == {0: [], 1: [], 2: [], 3: []}


@pytest.mark.parametrize("operation", ["status", "enable", "is_enabled"])
def test_any_first_operation_takes_over_the_state_of_the_original_toolkit(formerly, operation):
    tracker = formerly(2)

    getattr(tracker, operation)()

    assert exclusive_gpus(tracker) == [2]


@pytest.mark.parametrize("operation", ["status", "reset"])
def test_reservations_are_recorded_from_then_on(formerly, operation):
    tracker = formerly(2)

    getattr(tracker, operation)()

    assert tracker.recording.is_on()


def test_the_first_container_begins_the_history_with_itself_and_those_that_run(formerly, untracked):
    tracker = formerly(2)
    untracked.run_untracked("of-1.x", 1)

    untracked.create("first", [0])

    assert recorded(tracker) == ["first", "of-1.x"]
    assert tracker.recording.failures() == {}


def test_the_first_container_gets_its_gpus_also_where_the_history_cannot_be_begun(formerly, untracked):
    tracker = formerly(2)
    history = obstruct_history(untracked)
    untracked.run_untracked("of-1.x", 1)

    untracked.create("first", [0])

    assert untracked.users() == {0: ["first"], 1: ["of-1.x"], 2: [], 3: []}
    assert recorded(tracker) == []
    assert tracker.recording.failures() == {"history": f"{history} is not a directory"}


@pytest.mark.parametrize("operation", ["status", "is_enabled", "initialize", "enable", "reset"])
def test_a_history_that_cannot_be_begun_loses_no_running_container(formerly, untracked, operation):
    tracker = formerly(2)
    history = obstruct_history(untracked)
    untracked.run_untracked("of-1.x", 1)

    with pytest.raises(FileError) as failed:
        getattr(tracker, operation)()

    assert failed.value.message == f"{history} is not a directory"
    assert untracked.users() == {0: [], 1: ["of-1.x"], 2: [], 3: []}
    assert tracker.recording.failures() == {"history": f"{history} is not a directory"}


def test_a_reset_without_a_history_says_all_that_it_found(formerly, untracked):
    tracker, said = formerly(2), []
    obstruct_history(untracked)
    untracked.create("mine", [3])
    untracked.run_untracked("of-1.x", 1)

    with pytest.raises(FileError):
        tracker.reset(tell=said.append)

    assert said == ["container of-1.x is running and uses GPUs [1]", "container mine is running and uses GPUs [3]"]


def test_a_tracker_that_is_enabled_without_a_history_has_its_hooks_and_the_running_containers(formerly, untracked):
    tracker, done = formerly(enabled=False), []
    obstruct_history(untracked)
    untracked.run_untracked("of-1.x", 1)

    with pytest.raises(FileError):
        tracker.enable(tell=done.append, when_enabled=lambda: done.append("hooks"))

    assert done == ["hooks", "container of-1.x is running and uses GPUs [1]"]
    assert untracked.users() == {0: [], 1: ["of-1.x"], 2: [], 3: []}


def test_state_of_the_original_toolkit_is_taken_over_once(formerly):
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


def test_a_gpu_whose_number_moved_is_known_by_its_id(formerly):
    tracker = formerly(0, 1, uuids=(UUIDS[0], UUIDS[3], UUIDS[2], UUIDS[1]))

    tracker.initialize()

    assert exclusive_gpus(tracker) == [0, 3]


def test_a_shared_gpu_that_was_replaced_takes_nothing_from_the_others(formerly):
    tracker = formerly(1, uuids=(UUIDS[0], UUIDS[1], "0x1", UUIDS[3]))

    tracker.initialize()

    assert exclusive_gpus(tracker) == [1]


@pytest.mark.parametrize("uuid", ["0x0", "", "N/A"])
def test_gpus_without_ids_are_known_by_their_order(machine_of, uuid):
    machine = machine_of("mi210-4")
    for address in ("0000:03:00.0", "0000:26:00.0", "0000:43:00.0", "0000:63:00.0"):
        write(machine.host.path(f"/sys/module/amdgpu/drivers/pci:amdgpu/{address}/unique_id"), "0\n")
    for node in Path(machine.host.path("/sys/class/kfd/kfd/topology/nodes")).iterdir():
        properties = (node / "properties").read_text()
        (node / "properties").write_text(re.sub(r"unique_id \d+", "unique_id 0", properties))
    leave(machine.host, {"enabled": True, "gpusStatus": statuses(2, uuids=[uuid] * 4)})

    machine.tracker.initialize()

    assert exclusive_gpus(machine.tracker) == [2]


def test_partitions_with_one_id_are_known_by_their_rank(machine_of):
    machine = machine_of("mi300x-8-cpx")
    machine.tracker.enable()
    uuids = [gpu.uuid for gpu in machine.tracker.status().gpus]
    machine.tracker.disable()
    os.unlink(machine.state.policy_path)
    # The boards in another order than they have now.
    moved = statuses(0, 9, uuids=uuids[8:16] + uuids[:8] + uuids[16:], partition="cpx_nps4")
    leave(machine.host, {"enabled": True, "gpusStatus": moved})

    machine.tracker.initialize()

    assert exclusive_gpus(machine.tracker) == [1, 8]


@pytest.mark.parametrize(
    ("partition", "was"), [("cpx_nps1", "cpx_nps1"), ("spx_nps4", "spx_nps4"), ("", "no partition")]
)
def test_an_exclusive_gpu_that_was_partitioned_in_another_way_is_refused_until_reset(machine_of, partition, was):
    machine = machine_of("mi300x-8-cpx")
    machine.tracker.enable()
    uuids = [gpu.uuid for gpu in machine.tracker.status().gpus]
    machine.tracker.disable()
    os.unlink(machine.state.policy_path)
    leave(machine.host, {"enabled": True, "gpusStatus": statuses(3, uuids=uuids, partition=partition)})

    with pytest.raises(StateError, match=f"GPU 3, which was exclusive, was {was} and is now cpx_nps4"):
        machine.tracker.status()

    machine.tracker.reset()
    assert exclusive_gpus(machine.tracker) == []


def test_a_disabled_tracker_stays_disabled(formerly):
    tracker = formerly(enabled=False)

    tracker.initialize()

    assert tracker.is_enabled() is False


GPU_0 = '"0":{"uuid":"0xEA35F57CC80DEB35","accessibility":1}'


@pytest.mark.parametrize(
    "content",
    [
        # What follows the document, the case of keys and what is null or left out do not matter to Go's reader.
        '{"enabled":true,"gpusStatus":{' + GPU_0 + "}}}",
        '  {"enabled":true,"gpusStatus":{' + GPU_0 + "}} garbage",
        '{"Enabled":true,"GPUSSTATUS":{' + GPU_0 + '},"gpusInfo":null,"more":[1]}',
        '{"enabled":true,"gpusStatus":{"1":null,"2":{"uuid":null,"accessibility":null},' + GPU_0 + "}}",
    ],
)
def test_state_that_the_original_reads_is_taken_over(untracked, content):
    leave_text(untracked.host, content)

    untracked.tracker.initialize()

    assert exclusive_gpus(untracked.tracker) == [0]


@pytest.mark.parametrize("content", ["{}", "null", '{"enabled":false}', '{"gpusStatus":{"0":{"accessibility":7}}}'])
def test_state_that_the_original_reads_as_disabled_is_disabled(untracked, content):
    leave_text(untracked.host, content)

    untracked.tracker.initialize()

    assert untracked.tracker.is_enabled() is False
    untracked.create("c1", [0])


REFUSED = [
    ("", "Expecting value: line 1 column 1 (char 0)"),
    ('{"enabled":true,"gpusStatus":{"0":{"uuid":"0xEA', "Unterminated string starting at: line 1 column 43 (char 42)"),
    ("[]", "the document is not of the right kind"),
    ('{"enabled":NaN}', "NaN is not JSON"),
    ('{"enabled":"yes"}', "enabled is not of the right kind"),
    ('{"enabled":1}', "enabled is not of the right kind"),
    ('{"enabled":true}', "it lists no GPUs"),
    ('{"enabled":false,"gpusInfo":[]}', "gpusInfo is not of the right kind"),
    ('{"enabled":true,"gpusStatus":[1]}', "gpusStatus is not of the right kind"),
    ('{"enabled":true,"gpusStatus":{"one":{}}}', "a GPU's number is not a number"),
    ('{"enabled":true,"gpusStatus":{"0":7}}', "GPU 0 is not of the right kind"),
    ('{"enabled":true,"gpusStatus":{"0":{"accessibility":"1"}}}', "accessibility of GPU 0 is not of the right kind"),
    (
        '{"enabled":true,"gpusStatus":{"0":{"accessibility":7}}}',
        "accessibility 7 of GPU 0 is neither shared nor exclusive",
    ),
    (
        '{"enabled":true,"gpusStatus":{"0":{"uuid":"0x1","accessibility":1}}}',
        "GPU 0, which was exclusive, no longer has its id",
    ),
    ("[" * 100_000, "it is nested too deeply"),
]


@pytest.mark.parametrize(("content", "why"), REFUSED)
def test_state_that_the_original_refuses_is_refused_until_reset(untracked, content, why):
    leave_text(untracked.host, content)

    with pytest.raises(StateError) as refused:
        untracked.tracker.initialize()

    path = untracked.host.path("/var/log/gpu-tracker.json")
    begin = f"the state of AMD's toolkit 1.x in {path} cannot be converted, so GPUs are refused: {why}"
    assert refused.value.message.startswith(begin)
    assert refused.value.hint == "make them available again with 'sudo amd-ctk gpu-tracker reset'"
    with pytest.raises(GpusChanged):
        untracked.create("c1", [1])
    with pytest.raises(GpusChanged):
        untracked.tracker.status()

    assert untracked.tracker.reset() is True
    untracked.create("c1", [1])


def test_a_file_that_cannot_be_read_is_refused_too(untracked):
    os.makedirs(untracked.host.path("/var/log/gpu-tracker.json"))

    with pytest.raises(StateError, match=r"so GPUs are refused: it is a directory \("):
        untracked.tracker.status()


def test_a_reset_needs_no_command_before_it(untracked):
    leave_text(untracked.host, "{")

    assert untracked.tracker.reset() is True
    assert exclusive_gpus(untracked.tracker) == []


def test_without_a_driver_it_waits(machine_of):
    machine = machine_of("no-driver")
    leave_text(machine.host, '{"enabled":true,"gpusStatus":{}}')

    machine.tracker.initialize()

    assert not machine.state.has_policy()
