"""Nobody waits for GPUs that stand idle, and that nobody who came earlier may take."""

from __future__ import annotations

import pytest

from amd_gpu_sharing.broker.requests.protocol import RESERVE, Request
from support.shared_host import ALICE, BOB, CAROL, run

ERIN = 40004


def reserve(name, request):
    return Request(verb=RESERVE, name=name, gpus=request, seconds=3600)


@pytest.fixture
def waiter(person):
    """Return a person who waits for GPU 2 while GPUs 6 and 7 are idle."""
    assert person(ALICE, run("first", "0,1,3,4,5")).line() == "got (0, 1, 3, 4, 5)"
    assert person(BOB, run("second", "2")).line() == "got (2,)"
    waiting = person(CAROL, run("third", "2"))
    assert waiting.line().startswith("waiting for 1 GPU: 0 free of 1 that fits")
    return waiting


@pytest.mark.parametrize("uid", [ERIN, 0], ids=["a user", "root"])
@pytest.mark.parametrize(
    "request_of_another",
    [run("other", "free:1"), run("other", "free:1", wait=False), reserve("other", "free:1")],
    ids=["a job that can wait", "a job that does not wait", "a reservation"],
)
def test_a_waiter_for_one_gpu_does_not_hold_up_those_who_can_take_another(waiter, person, uid, request_of_another):
    assert person(uid, request_of_another).line() == "got (6,)"
    assert waiter.is_silent()


def test_a_job_for_two_gpus_does_not_take_the_one_that_somebody_waits_for(waiter, person):
    second = person(ERIN, run("wide", "free:3"))

    assert second.line().startswith("waiting for 3 GPUs: 2 free of 8, 1 job before this one (40003's third: 1 GPU)")


def test_a_job_that_does_not_wait_is_refused_if_too_few_gpus_are_left(waiter, person):
    refused = person(ERIN, run("wide", "free:3", wait=False)).line()

    assert refused.endswith("1 job waits for GPUs before this one ('amd-ctk run --wait' waits in line)")


@pytest.mark.parametrize(
    "request_of_another",
    [run("other", "free:1"), run("other", "free:1", wait=False), reserve("other", "free:1")],
    ids=["a job that can wait", "a job that does not wait", "a reservation"],
)
def test_a_waiter_at_its_own_limit_holds_up_nobody(broker, person, request_of_another):
    broker.set_terms("fifo", "alice=40001:gpus=2", "everyone")
    assert person(ALICE, run("first", "free:2")).line() == "got (0, 1)"
    waiting = person(ALICE, run("second", "free:1"))
    assert waiting.line().endswith("you have 2 of 2 GPUs")

    assert person(BOB, request_of_another).line() == "got (2,)"
    assert waiting.is_silent()


def test_a_waiter_for_more_gpus_than_a_lowered_limit_allows_is_refused(broker, person):
    assert person(BOB, run("first", "free:7")).line() == "got (0, 1, 2, 3, 4, 5, 6)"
    waiting = person(ALICE, run("wide", "free:4"))
    assert waiting.line().startswith("waiting for 4 GPUs")

    broker.set_terms("fifo", "alice=40001:gpus=2", "everyone")
    broker.wake()
    person(CAROL, run("third", "free:1")).line()

    assert waiting.answer() == "3: you may have 2 GPUs at once, but this requests 4 (request fewer)"
