"""Files that a later version of the toolkit wrote: what may be passed over is kept, and the rest is respected."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from amd_gpu_tracker.book.lease import parse_lease
from amd_gpu_tracker.book.policy import parse_policy
from amd_gpu_tracker.claims.accessibility import AccessibilityChange
from amd_gpu_tracker.errors import GpusRefused, StateError

ADDRESSES = ("0000:03:00.0", "0000:26:00.0", "0000:43:00.0", "0000:63:00.0")


def add_keys(path: str, **keys: object) -> None:
    document = json.loads(Path(path).read_text())
    Path(path).write_text(json.dumps({**document, **keys}, separators=(",", ":")) + "\n")


def write_lease_of_version_2(machine, container_id: str, *gpus: int) -> str:
    """Write a lease of which this version knows only that it is not for it, and of which GPUs it is."""
    path = machine.state.lease_path(("/run/runc", container_id))
    keys = [f"{ADDRESSES[number]}/0" for number in gpus]
    Path(path).write_text(json.dumps({"version": 2, "container_id": container_id, "gpus": keys}))
    return path


def test_a_lease_with_a_key_of_tomorrow_counts_and_keeps_it(machine):
    machine.tracker.set_accessibility("1", exclusive=True)
    init = machine.create("c1", [1])
    (name,) = machine.lease_files()
    path = f"{machine.state.leases_directory}/{name}"
    add_keys(path, colour=1000, quota={"hours": [1, 2]})

    assert machine.users() == {0: [], 1: ["c1"], 2: [], 3: []}
    assert machine.tracker.status().problems == ()
    with pytest.raises(GpusRefused):
        machine.create("c2", [1])
    # The refused claim wrote down the init of the first.
    written = json.loads(Path(path).read_text())
    assert written["init"]["pid"] == init
    assert written["colour"] == 1000
    assert written["quota"] == {"hours": [1, 2]}


def test_keys_of_tomorrow_are_part_of_the_lease_as_a_value(machine):
    machine.create("c1", [1])
    (name,) = machine.lease_files()
    path = f"{machine.state.leases_directory}/{name}"
    add_keys(path, colour=1000)

    assert parse_lease(Path(path).read_bytes()).unknown == (("colour", 1000),)


def test_a_policy_with_keys_of_tomorrow_is_followed_and_keeps_them(machine):
    document = json.loads(Path(machine.state.policy_path).read_text())
    document["gpus"][2]["label"] = "for Carol"
    document["quotas"] = [{"uid": 1000}]
    Path(machine.state.policy_path).write_text(json.dumps(document))

    assert machine.tracker.set_accessibility("1", exclusive=True) == AccessibilityChange(tracked=True, changed=(1,))

    written = json.loads(Path(machine.state.policy_path).read_text())
    assert [gpu["exclusive"] for gpu in written["gpus"]] == [False, True, False, False]
    assert written["gpus"][2]["label"] == "for Carol"
    assert written["quotas"] == [{"uid": 1000}]
    assert parse_policy(Path(machine.state.policy_path).read_bytes()).unknown == (("quotas", [{"uid": 1000}]),)


def test_a_policy_of_a_later_version_refuses_and_proposes_no_reset(machine):
    Path(machine.state.policy_path).write_text('{"version":2,"enabled":false,"gpus":[]}\n')

    for operation in (machine.tracker.status, machine.tracker.disable, lambda: machine.create("c1", [0])):
        with pytest.raises(StateError) as refused:
            operation()
        assert str(refused.value) == (
            f"the GPU Tracker's state {machine.state.policy_path} cannot be understood:"
            " it is version 2, of a later toolkit (install that toolkit again)"
        )


def test_a_lease_of_a_later_version_refuses_its_own_gpus_and_no_others(machine):
    machine.tracker.set_accessibility("0-1", exclusive=True)
    path = write_lease_of_version_2(machine, "tomorrow", 1, 2)

    machine.create("c0", [0])
    machine.create("c2", [2])
    with pytest.raises(StateError) as refused:
        machine.create("c1", [1])

    assert str(refused.value) == (
        f"the lease {path} cannot be understood: it is version 2, of a later toolkit (install that toolkit again)"
    )
    assert os.path.exists(path)


def test_status_has_a_question_mark_for_the_gpus_of_a_lease_of_a_later_version(machine):
    write_lease_of_version_2(machine, "tomorrow", 1, 2)
    machine.create("c2", [2])

    status = machine.tracker.status()

    assert [gpu.has_unreadable for gpu in status.gpus] == [False, True, True, False]
    assert [len(gpu.containers) for gpu in status.gpus] == [0, 0, 1, 0]
    assert "reset" not in status.problems[0]


def test_a_choice_passes_over_the_gpus_of_a_lease_of_a_later_version(machine):
    write_lease_of_version_2(machine, "tomorrow", 0, 1)

    assert machine.tracker.reserve("free:1", name="mine").numbers == (2,)
    with pytest.raises(GpusRefused) as refused:
        machine.tracker.reserve("free:3", name="more")

    assert str(refused.value) == (
        "free:3: 1 of 4 GPUs is free (0, 1 in use by a reservation that cannot be read; 2 in use by mine);"
        " 'amd-ctk run --gpus=free:3 --wait -- COMMAND' waits for 2"
    )


def test_a_gpu_of_a_later_lease_and_of_a_container_is_not_made_exclusive(machine):
    write_lease_of_version_2(machine, "tomorrow", 1)
    machine.create("c1", [1])

    assert machine.tracker.set_accessibility("0-1", exclusive=True) == AccessibilityChange(
        tracked=True, changed=(0,), in_use=(1,)
    )


def test_the_end_of_its_container_removes_a_lease_of_a_later_version(machine):
    path = write_lease_of_version_2(machine, "tomorrow", 1)

    machine.poststop("tomorrow")

    assert not os.path.exists(path)


def test_a_damaged_lease_of_known_gpus_refuses_these_only(machine):
    machine.tracker.set_accessibility("0-1", exclusive=True)
    path = Path(machine.state.lease_path(("/run/runc", "damaged")))
    path.write_text('{"version":1,"container_id":"damaged","gpus":["0000:26:00.0/0"]}')

    machine.create("c0", [0])
    with pytest.raises(StateError, match=r"the lease .* cannot be understood: bundle, cgroup, .* is missing"):
        machine.create("c1", [1])


def test_a_cut_lease_may_be_of_any_gpu(machine):
    machine.tracker.set_accessibility("0", exclusive=True)
    Path(machine.state.lease_path(("/run/runc", "cut"))).write_text('{"version":1,"container_id":"cu')

    assert [gpu.has_unreadable for gpu in machine.tracker.status().gpus] == [True] * 4
    with pytest.raises(StateError, match="cannot be understood"):
        machine.create("c0", [0])
    with pytest.raises(StateError, match="cannot be understood"):
        machine.tracker.reserve("free:1", name="mine")
