"""Containers that are given the GPUs which the program that starts them has reserved."""

from __future__ import annotations

import pytest

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
