"""Containers that are given the GPUs which the program that starts them has reserved."""

from __future__ import annotations

import os

import pytest

from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.face.tracker import Tracker


@pytest.fixture
def exclusive(runtime_on):
    """Return a runtime on four exclusive MI210."""
    runtime = runtime_on("mi210-4")
    Tracker(runtime.host).enable()
    Tracker(runtime.host).set_accessibility("all", exclusive=True)
    return runtime


def variables(reservation):
    return [f"{name}={value}" for name, value in reservation.environment.items()]


def test_a_container_with_the_token_has_the_gpus_of_its_program(exclusive):
    with Tracker(exclusive.host).reserve("1-2", name="train") as reservation:
        exclusive.write_config(*variables(reservation))

        answer = exclusive.create()

        assert (answer.returncode, answer.stderr) == (0, "")
        assert [path for path in exclusive.paths() if "render" in path] == [
            "/dev/dri/renderD131",
            "/dev/dri/renderD129",
        ]


@pytest.mark.needs("root")
def test_a_container_without_the_token_is_refused_in_the_guides_words(exclusive):
    with Tracker(exclusive.host).reserve("1", name="train"):
        exclusive.write_config("AMD_VISIBLE_DEVICES=1", "AMD_CTK_RESERVATION=train.0")

        answer = exclusive.create()

    assert answer.returncode == 1
    assert answer.stderr.endswith("GPUs [1] are exclusive and already in use\nGPU 1 is in use by job train\n")


@pytest.mark.needs("root")
@pytest.mark.parametrize(("users", "name"), [("maria:x:1003:1003::/:/bin/sh\n", "maria"), ("", "user 1003")])
def test_a_refusal_names_the_person_who_has_the_gpu_as_the_hosts_own_file_of_users_does(exclusive, users, name):
    state = State(exclusive.host)
    os.makedirs(exclusive.host.path("/etc"), exist_ok=True)
    with open(exclusive.host.path("/etc/passwd"), "w", encoding="utf-8") as file:
        file.write(users)
    with Tracker(exclusive.host).reserve("1", name="train"):
        state.write_lease(state.read_lease(state.lease_path(("", "train"))).replace(person=1003))
        exclusive.write_config("AMD_VISIBLE_DEVICES=1")

        answer = exclusive.create()

    assert answer.stderr.endswith(f"GPU 1 is in use by job train of {name}\n")
