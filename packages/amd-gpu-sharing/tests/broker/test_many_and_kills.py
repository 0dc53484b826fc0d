"""Many at once, and a broker that is killed: nothing is given twice, and everybody keeps the place."""

from __future__ import annotations

import os
import re

import pytest

from amd_gpu_tracker.face.tracker import Tracker
from support.shared_host import ALICE, BOB, CAROL, run, users, wait_until

REQUESTS = int(os.environ.get("BROKER_REQUESTS", "60"))
PERSONS = 20
KILLS = int(os.environ.get("BROKER_KILLS", "10"))
WAITERS = int(os.environ.get("BROKER_WAITERS", "30"))


def test_of_many_requests_at_once_eight_are_granted_and_no_gpu_twice(host, person):
    asked = [person(50_000 + n % PERSONS, run(f"job-{n}", "free:1", wait=False)) for n in range(REQUESTS)]

    said = [each.line() for each in asked]

    granted = [int(re.fullmatch(r"got \((\d),\)", line)[1]) for line in said if line.startswith("got")]
    assert sorted(granted) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert sum(line.startswith("1: ") for line in said) == REQUESTS - 8
    assert {number: len(jobs) for number, jobs in users(host).items()} == dict.fromkeys(range(8), 1)


def test_many_waiters_keep_their_place_while_the_broker_is_killed_again_and_again(host, broker, person):
    holder = person(ALICE, run("holder", "free:8"))
    holder.line()
    waiters = []
    for number in range(WAITERS):
        waiters.append(person(50_000 + number % PERSONS, run(f"w-{number}", "all")))
        assert waiters[-1].line().startswith("waiting")
    names = [ticket.name for ticket in Tracker(host).waiting()]

    for _ in range(KILLS):
        broker.kill()
        broker.start()

    assert [ticket.name for ticket in Tracker(host).waiting()] == names == [f"w-{n}" for n in range(WAITERS)]
    assert users(host) == {number: ["40001/holder"] for number in range(8)}
    holder.end()
    for waiter in waiters:
        line = waiter.line()
        while line.startswith("waiting"):
            line = waiter.line()
        assert line == "got (0, 1, 2, 3, 4, 5, 6, 7)"
        waiter.end()


def test_a_job_that_ends_while_no_broker_is_there_frees_its_gpus(host, broker, person):
    alice = person(ALICE, run("a", "0"))
    alice.line()
    bob = person(BOB, run("b", "0"))
    bob.line()
    broker.kill()
    alice.kill()
    broker.start()

    line = bob.line()
    while line.startswith("waiting"):
        line = bob.line()
    assert line == "got (0,)"
    assert users(host) == {0: ["40002/b"]}


def test_waiter_and_broker_killed_together_hold_up_nobody(host, broker, person):
    alice = person(ALICE, run("a", "0"))
    alice.line()
    bob, carol = person(BOB, run("b", "0")), None
    bob.line()
    carol = person(CAROL, run("c", "0"))
    carol.line()
    broker.kill()
    bob.kill()
    alice.kill()
    os.waitpid(bob.pid, 0)
    broker.start()

    line = carol.line()
    while line.startswith("waiting"):
        line = carol.line()
    assert line == "got (0,)"
    wait_until(lambda: os.listdir(host.path("/run/amd-container-toolkit/waiting")) == [])


@pytest.mark.parametrize("order", ["fifo", "fair"])
def test_the_order_is_that_of_the_setting(broker, person, order):
    broker.set_terms(order, "everyone")
    # Alice has used some, bob nothing.
    alice = person(ALICE, run("a", "free:8"))
    alice.line()
    second = person(ALICE, run("second", "free:8"))
    second.line()
    bob = person(BOB, run("b", "free:8"))
    bob.line()

    alice.end()

    first, last = (bob, second) if order == "fair" else (second, bob)
    assert first.line() == "got (0, 1, 2, 3, 4, 5, 6, 7)"
    assert last.is_silent()


def test_those_who_wait_in_the_former_queue_are_before_all_others(host, broker, person):
    alice = person(ALICE, run("a", "0"))
    alice.line()
    pid = os.fork()
    if not pid:
        try:
            Tracker(host).wait("0", name="former").release()
        finally:
            os._exit(0)
    wait_until(lambda: [ticket.name for ticket in Tracker(host).waiting()] == ["former"])
    bob = person(BOB, run("b", "0"))
    bob.line()

    alice.end()
    os.waitpid(pid, 0)

    assert bob.answer() == "got (0,)"
