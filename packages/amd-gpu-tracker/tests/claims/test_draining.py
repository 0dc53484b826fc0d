"""Drained GPUs are given to nobody, by no way; who has one keeps it."""

from __future__ import annotations

import threading
import time

import pytest

from amd_gpu_tracker import Tracker
from amd_gpu_tracker.errors import GpusRefused
from amd_gpu_tracker.times import format_time
from amdgpu_discovery.choices.rules import ChoiceRules
from amdgpu_discovery.errors import RequestError


@pytest.fixture
def tracker(machine, monkeypatch):
    """Return the tracker of four GPUs, for root."""
    monkeypatch.delenv("SUDO_UID", raising=False)
    return machine.tracker


@pytest.mark.needs("root")
def test_a_drained_gpu_is_refused_with_the_reason(machine, tracker):
    assert tracker.drain("1", reason="fan swap") == (1,)

    with pytest.raises(GpusRefused) as refused:
        tracker.reserve("0-1", name="a")

    assert str(refused.value) == "GPU 1 is drained: fan swap ('sudo amd-ctk gpu-tracker undrain GPUS' ends it)"
    assert tracker.reserve("0,2-3", name="b").numbers == (0, 2, 3)


@pytest.mark.needs("root")
def test_the_holder_of_a_drained_gpu_keeps_it_and_nobody_gets_it_after(machine, tracker):
    tracker.reserve("1", name="a")
    tracker.drain("1")

    assert machine.users()[1] == ["a"]
    tracker.release("a")
    with pytest.raises(GpusRefused, match=r"^GPU 1 is drained \("):
        tracker.reserve("1", name="b")


@pytest.mark.needs("root")
def test_a_drain_outlives_boot_and_reset_and_ends_with_undrain(machine, tracker):
    tracker.drain("1-2", reason="fan swap")

    machine.boot()
    machine.tracker.reset()
    with pytest.raises(GpusRefused, match="GPUs 1 and 2 are drained: fan swap"):
        machine.tracker.reserve("0-3", name="a")

    assert machine.tracker.undrain("all") == (1, 2)
    assert machine.tracker.reserve("all", name="a").numbers == (0, 1, 2, 3)


def test_all_gives_the_rest(machine, tracker):
    tracker.drain("1-2")

    assert tracker.reserve("all", name="a").numbers == (0, 3)
    with pytest.raises(GpusRefused, match="GPU 1 is drained"):
        tracker.reserve("all,1", name="b")


def test_all_is_refused_where_the_administrator_says_so(machine, tracker):
    tracker.drain("1-2")
    strict = Tracker(machine.host, processes=machine.processes, rules=ChoiceRules(groups={}, skips_drained=False))

    with pytest.raises(GpusRefused, match="GPUs 1 and 2 are drained"):
        strict.reserve("all", name="a")


@pytest.mark.needs("root")
def test_all_of_gpus_that_are_all_drained_is_refused(tracker):
    tracker.drain("all", reason="move")

    with pytest.raises(GpusRefused, match="GPUs 0 and 1 and 2 and 3 are drained: move"):
        tracker.reserve("all", name="a")


@pytest.mark.needs("root")
def test_the_person_who_drained_a_gpu_is_named_behind_sudo(tracker, monkeypatch):
    monkeypatch.setenv("SUDO_UID", "4242")
    tracker.drain("1", reason="fan swap")

    with pytest.raises(GpusRefused) as refused:
        tracker.reserve("1", name="a")

    assert refused.value.message == "GPU 1 is drained by 4242: fan swap"


@pytest.mark.needs("root")
def test_the_person_who_drained_a_gpu_is_named_where_root_logged_in_as_somebody(machine, tracker):
    (machine.proc / "self" / "loginuid").write_text("4343")
    tracker.drain("1")

    with pytest.raises(GpusRefused, match="GPU 1 is drained by 4343"):
        tracker.reserve("1", name="a")


def test_a_drain_that_has_an_end_is_over_then(tracker):
    tracker.drain("1", until=1.0)

    assert tracker.reserve("1", name="a").numbers == (1,)


@pytest.mark.parametrize("until", [-1.0, 1e13, float("inf"), float("nan")])
def test_a_drain_does_not_end_at_what_is_no_time(tracker, until):
    with pytest.raises(RequestError, match="that is not a time"):
        tracker.drain("1", until=until)

    assert tracker.reserve("1", name="a").numbers == (1,)


def test_a_gpu_that_does_not_exist_is_not_drained(tracker):
    with pytest.raises(RequestError, match="GPU 9 does not exist"):
        tracker.drain("0,9")

    assert tracker.reserve("0", name="a").numbers == (0,)


def test_no_start_gets_a_gpu_after_the_drain_has_returned(machine, tracker):
    together = threading.Barrier(51)
    refused: list[str] = []

    def start(name: str) -> None:
        together.wait()
        try:
            Tracker(machine.host, processes=machine.processes).reserve("1", name=name)
        except GpusRefused:
            refused.append(name)

    threads = [threading.Thread(target=start, args=(f"c{number}",)) for number in range(50)]
    for thread in threads:
        thread.start()
    together.wait()
    tracker.drain("1")
    returned = time.time()
    for thread in threads:
        thread.join(timeout=60)

    granted = [machine.state.read_lease(path) for path in machine.state.lease_paths()]
    assert len(granted) + len(refused) == 50
    assert [lease.container_id for lease in granted if lease.since > returned] == []
    with pytest.raises(GpusRefused):
        tracker.reserve("1", name="late")


@pytest.mark.needs("root")
def test_a_refusal_says_when_the_drain_ends(tracker):
    end = time.time() + 3600
    tracker.drain("1", reason="fan swap", until=end)

    with pytest.raises(GpusRefused) as refused:
        tracker.reserve("1")

    assert refused.value.message == f"GPU 1 is drained: fan swap, until {format_time(end)}"
