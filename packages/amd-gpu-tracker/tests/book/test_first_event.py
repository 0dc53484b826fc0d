"""State of AMD's toolkit 1.x counts from the first event on, whatever that is: exclusive stays exclusive."""

from __future__ import annotations

import json
import os
from contextlib import suppress

import pytest

from amd_gpu_tracker import may_be_tracking
from amd_gpu_tracker.errors import GpusRefused
from amd_gpu_tracker.leases.status import read_status
from amdgpu_discovery.errors import ToolkitError

UUIDS = ("0xEA35F57CC80DEB35", "0x89CAA15875FF5A43", "0x6E32F10EFC982B4C", "0x12FE4F7FDAF06B9")
WHOLE = json.dumps(
    {
        "enabled": True,
        "gpusStatus": {
            str(number): {"uuid": uuid, "partitionType": "", "accessibility": int(number == 1), "containerIds": []}
            for number, uuid in enumerate(UUIDS)
        },
        "gpusInfo": {},
    }
)
CONTENTS = {"whole": WHOLE, "cut": WHOLE[: len(WHOLE) // 2], "empty": "", "absent": None}
# What becomes of two containers that ask for GPU 1, one after the other.
OUTCOMES = {
    "whole": ["given", "refused"],
    "cut": ["refused", "refused"],
    "empty": ["refused", "refused"],
    "absent": ["given", "given"],
}


def leave(host, content):
    if content is not None:
        path = host.path("/var/log/gpu-tracker.json")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)


def outcome(machine, container_id):
    try:
        machine.create(container_id, [1])
    except ToolkitError:
        return "refused"
    return "given"


@pytest.mark.parametrize("event", ["boot", "start", "command", "rootless start"])
@pytest.mark.parametrize("driver", ["there", "later"])
@pytest.mark.parametrize("state", CONTENTS)
def test_exclusive_stays_exclusive_and_what_cannot_be_read_refuses(untracked, state, driver, event):
    leave(untracked.host, CONTENTS[state])
    sys = untracked.host.path("/sys")
    if driver == "later":
        os.rename(sys, f"{sys}.away")

    with suppress(ToolkitError):
        if event == "boot":
            untracked.tracker.initialize()
        elif event == "command":
            untracked.tracker.status()
        elif event == "rootless start":
            untracked.as_rootless_user().create("rootless", [0])
        else:
            untracked.create("other", [0])
    if driver == "later":
        os.rename(f"{sys}.away", sys)

    assert [outcome(untracked, "first"), outcome(untracked, "second")] == OUTCOMES[state]


def test_without_a_driver_the_state_waits_for_it(untracked):
    leave(untracked.host, WHOLE)
    sys = untracked.host.path("/sys")
    os.rename(sys, f"{sys}.away")

    untracked.tracker.initialize()

    assert untracked.tracker.is_enabled() is True
    assert not os.path.exists(untracked.state.policy_path)


def test_a_start_writes_down_what_it_took_over_and_adopts_what_runs(untracked):
    leave(untracked.host, WHOLE)
    untracked.run_untracked("of-1.x", 1)

    with pytest.raises(GpusRefused, match=r"GPU 1 is in use by container of-1\.x"):
        untracked.create("mine", [1])

    os.unlink(untracked.host.path("/var/log/gpu-tracker.json"))
    assert untracked.users() == {0: [], 1: ["of-1.x"], 2: [], 3: []}
    assert [gpu.accessibility for gpu in untracked.tracker.status().gpus] == [
        "shared",
        "exclusive",
        "shared",
        "shared",
    ]


def test_a_user_is_refused_what_version_1_made_exclusive(untracked):
    leave(untracked.host, WHOLE)
    user = untracked.as_rootless_user()

    user.create("shared", [0])
    with pytest.raises(GpusRefused, match=r"GPUs \[1\] are exclusive, which users get only with a reservation"):
        user.create("exclusive", [1])


def test_a_disabled_tracker_of_version_1_keeps_nobody_back(untracked):
    leave(untracked.host, json.dumps({"enabled": False, "gpusStatus": {}, "gpusInfo": {}}))

    assert may_be_tracking(untracked.host) is True
    assert [outcome(untracked, "first"), outcome(untracked, "second")] == ["given", "given"]
    assert may_be_tracking(untracked.host) is False


def test_a_command_that_only_reads_sees_the_first_event_too(untracked):
    leave(untracked.host, WHOLE)

    status = read_status(untracked.state, untracked.processes)

    assert [gpu.accessibility for gpu in status.gpus] == ["shared", "exclusive", "shared", "shared"]
    assert not os.path.exists(untracked.state.policy_path)


def test_a_host_without_any_state_costs_a_start_one_stat(untracked, monkeypatch):
    looked = []
    monkeypatch.setattr(type(untracked.host), "stat", lambda _, path: looked.append(path))

    assert may_be_tracking(untracked.host) is False
    assert looked == ["/var/log/gpu-tracker.json"]
    untracked.tracker.enable()
    looked.clear()

    assert may_be_tracking(untracked.host) is True
    assert looked == []
