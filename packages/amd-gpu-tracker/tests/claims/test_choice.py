"""Choosing and reserving in one transaction, by the library's names."""

from __future__ import annotations

import random
import threading

import pytest

from amd_gpu_tracker.errors import ContainerRunning, GpusRefused, StateError, TrackerDisabled, TrackerNeeded
from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_discovery.choices.rules import ChoiceRules
from amdgpu_discovery.errors import RequestError


@pytest.fixture
def eight(machine_of):
    """Return eight MI210 in two XGMI hives, all exclusive."""
    machine = machine_of("mi210-8")
    machine.tracker.enable()
    machine.tracker.set_accessibility("all", exclusive=True)
    return machine


def test_a_choice_reserves_free_gpus(machine):
    assert machine.tracker.reserve("auto:2", name="first").numbers == (0, 1)
    assert machine.tracker.reserve("free:1", name="second").numbers == (2,)

    assert machine.users() == {0: ["first"], 1: ["first"], 2: ["second"], 3: []}


def test_where_nothing_is_free_auto_shares_the_least_shared(machine):
    machine.tracker.reserve("all", name="first")
    machine.tracker.reserve("0-2", name="second")

    assert machine.tracker.reserve("auto:1", name="third").numbers == (3,)
    assert machine.tracker.reserve("auto:1", name="fourth").numbers == (0,)


def test_free_is_refused_where_nothing_is_free(machine):
    machine.tracker.reserve("all", name="first")

    with pytest.raises(GpusRefused) as refusal:
        machine.tracker.reserve("free:1", name="second")

    assert str(refusal.value) == (
        "free:1: 0 of 4 GPUs are free (0-3 in use by first);"
        " 'amd-ctk run --gpus=free:1 --wait -- COMMAND' waits for one"
    )
    assert [each.message for each in machine.tracker.refusals()] == [str(refusal.value)]
    assert machine.users() == {0: ["first"], 1: ["first"], 2: ["first"], 3: ["first"]}


@pytest.fixture
def in_job(machine):
    """Return the tracker of a process that may have GPUs 2 and 3 only."""
    return Tracker(machine.host, processes=machine.processes, rules=ChoiceRules(groups={}, numbers=(2, 3)))


@pytest.mark.parametrize(
    ("request_text", "given"), [("auto:1", (2,)), ("auto:2", (2, 3)), ("all", (2, 3)), ("3", (3,)), ("", ())]
)
def test_a_batch_job_has_its_own_gpus_only(in_job, request_text, given):
    assert in_job.reserve(request_text, name="mine").numbers == given


@pytest.mark.parametrize(
    ("request_text", "sentence"),
    [
        ("auto:3", "auto:3: this process may use 2 GPUs"),
        (
            "0",
            ("GPU 0 is not among the GPUs this process may use (2, 3) (its device cgroup hides the others)"),
        ),
    ],
)
def test_gpus_outside_of_a_batch_job_are_refused(in_job, request_text, sentence):
    with pytest.raises(RequestError) as refusal:
        in_job.reserve(request_text, name="mine")

    assert str(refusal.value) == sentence


def test_exclusive_gpus_are_given_once(eight):
    given = [eight.tracker.reserve("auto:1", name=f"c{number}").numbers for number in range(8)]

    assert given == [(number,) for number in range(8)]
    with pytest.raises(GpusRefused, match="auto:1: 0 of 8 GPUs are free"):
        eight.tracker.reserve("auto:1", name="c8")
    eight.tracker.release("c5")
    assert eight.tracker.reserve("free", name="c9").numbers == (5,)


def test_neighbours_are_chosen(eight):
    eight.tracker.reserve("1-3", name="first")

    assert eight.tracker.reserve("auto:2", name="second").numbers == (4, 5)
    assert eight.tracker.reserve("auto:1", name="third").numbers == (0,)
    with pytest.raises(GpusRefused) as refusal:
        eight.tracker.reserve("free:3+xgmi", name="fourth")
    assert str(refusal.value) == (
        "free:3+xgmi: 2 of 8 GPUs are free (0-5 exclusive and in use);"
        " 'amd-ctk run --gpus=free:3+xgmi --wait -- COMMAND' waits for one"
    )


def test_a_request_beyond_the_host_is_no_refusal_of_the_moment(eight):
    with pytest.raises(RequestError) as refusal:
        eight.tracker.reserve("auto:9", name="first")

    assert str(refusal.value) == "auto:9: this host has 8 GPUs"
    assert eight.tracker.refusals() == []


def test_all_that_fit_are_reserved_like_names(eight):
    assert eight.tracker.reserve("all+numa:1", name="first").numbers == (4, 5, 6, 7)
    with pytest.raises(GpusRefused, match="are exclusive and already in use"):
        eight.tracker.reserve("all+xgmi", name="second")


def test_groups_are_the_administrators(eight):
    tracker = Tracker(eight.host, processes=eight.processes, rules=ChoiceRules(groups={"notebooks": "6-7"}))

    assert tracker.reserve("auto:1+group:notebooks", name="first").numbers == (6,)


@pytest.mark.parametrize("word", ["auto", "free"])
def test_a_choice_needs_the_tracker(untracked, word):
    with pytest.raises(TrackerNeeded) as refusal:
        untracked.tracker.reserve(f"{word}:1", name="first")

    assert str(refusal.value) == f"{word} needs the GPU Tracker; enable it with 'sudo amd-ctk gpu-tracker enable'"
    assert isinstance(refusal.value, TrackerDisabled)


def test_a_name_that_has_gpus_gets_no_more(machine):
    machine.tracker.reserve("auto:1", name="first")

    with pytest.raises(ContainerRunning, match="first already has GPUs"):
        machine.tracker.reserve("auto:1", name="first")


def test_nothing_is_chosen_while_a_lease_cannot_be_read(machine):
    (machine.directory / "host/run/amd-container-toolkit/leases").mkdir(parents=True, exist_ok=True)
    (machine.directory / "host/run/amd-container-toolkit/leases/x@.json").write_text("{")

    with pytest.raises(StateError):
        machine.tracker.reserve("auto:1", name="first")


def test_the_gpu_of_an_ended_container_is_free_again(machine):
    init = machine.create("first", [0])
    machine.kill(init)

    assert machine.tracker.reserve("free:1", name="second").numbers == (0,)


def test_forty_at_once_share_four_exclusive_gpus_once_each(machine):
    machine.tracker.set_accessibility("all", exclusive=True)
    outcomes = []

    def reserve(name):
        try:
            tracker = Tracker(machine.host, processes=machine.processes, lock_timeout=300)
            outcomes.append(tracker.reserve("free:1", name=name).numbers)
        except GpusRefused:
            outcomes.append(())

    threads = [threading.Thread(target=reserve, args=(f"c{number}",)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(filter(None, outcomes)) == [(0,), (1,), (2,), (3,)]
    assert len(outcomes) == 40


def test_a_random_history_never_gives_an_exclusive_gpu_twice_nor_refuses_while_enough_are_free(eight):
    rng = random.Random(18)
    held = {}
    for step in range(150):
        name = f"c{rng.randrange(12)}"
        if name in held:
            eight.tracker.release(name)
            del held[name]
            continue
        word, count = rng.choice(["auto", "free"]), rng.randint(1, 4)
        used = [number for numbers in held.values() for number in numbers]
        try:
            given = eight.tracker.reserve(f"{word}:{count}", name=name).numbers
        except GpusRefused:
            assert 8 - len(used) < count, step
        else:
            assert len(given) == count
            assert not set(given) & set(used), step
            held[name] = given
