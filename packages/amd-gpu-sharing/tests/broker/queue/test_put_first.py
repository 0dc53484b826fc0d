"""Root puts a waiting job first: before all others, once, and never beyond a limit."""

from __future__ import annotations

import pytest

from amd_gpu_sharing.broker.requests.client import Refused, send_request
from amd_gpu_sharing.broker.requests.protocol import Request
from amd_gpu_sharing.tickets import Tickets
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.leases.processes import Processes
from support.shared_host import ALICE, BOB, CAROL, finish_poll, run

SPARE = {"spare": True}


def put_first(broker, name, owner):
    """Ask the broker as root, and wait until its line has the new order."""
    send_request(broker.socket, Request(verb="first", name=name, owner=owner))
    finish_poll(broker.socket)


@pytest.fixture
def line(broker, person):
    """Return alice, who has GPU 0, and bob and carol, who wait for it in this order."""
    broker.set_terms("fifo", "everyone")
    alice = person(ALICE, run("a", "0"))
    assert alice.line() == "got (0,)"
    bob = person(BOB, run("b", "0"))
    assert bob.line().startswith("waiting for 1 GPU")
    carol = person(CAROL, run("c", "0"))
    assert "1 job before this one" in carol.line()
    return alice, bob, carol


def waiting_names(host):
    return [ticket.name for ticket in Tickets(State(host), Processes()).waiting()]


def test_a_job_that_root_puts_first_gets_the_next_gpu(host, broker, line):
    alice, bob, carol = line

    put_first(broker, "c", CAROL)
    assert waiting_names(host) == ["c", "b"]
    alice.end()

    assert carol.answer() == "got (0,)"
    assert f"put first: job c of user {CAROL}, process {carol.pid}" in broker.lines()
    carol.end()
    assert bob.answer() == "got (0,)"


def test_the_last_job_that_is_put_first_goes_before_an_earlier_one(host, broker, line):
    alice, bob, _ = line

    put_first(broker, "c", CAROL)
    put_first(broker, "b", BOB)

    assert waiting_names(host) == ["b", "c"]
    alice.end()
    assert bob.answer() == "got (0,)"


def test_a_job_stays_first_when_the_service_is_killed_and_starts_again(host, broker, line):
    put_first(broker, "c", CAROL)

    broker.kill()
    broker.start()

    assert waiting_names(host) == ["c", "b"]


def test_a_person_at_a_limit_is_not_lifted_over_it(broker, person):
    broker.set_terms("fifo", "everyone:gpus=1")
    alice, carol = person(ALICE, run("a", "0")), person(CAROL, run("c", "1"))
    assert (alice.line(), carol.line()) == ("got (0,)", "got (1,)")
    bob = person(BOB, run("b", "0"))
    assert bob.line().startswith("waiting for 1 GPU")
    second = person(CAROL, run("d", "0"))
    assert "you have 1 of 1 GPUs" in second.line()

    put_first(broker, "d", CAROL)
    alice.end()

    assert bob.answer() == "got (0,)"


def test_only_root_may_put_a_job_first(broker, person, line):
    ask = person(CAROL, Request(verb="first", name="c"))

    assert ask.line() == "3: only root may put a job first (run the command with sudo)"


@pytest.mark.parametrize(
    ("name", "owner", "message"),
    [
        ("c", BOB, "no job c waits for GPUs"),
        ("a", ALICE, "no job a waits for GPUs"),
        ("s", CAROL, "s is a spare job, which comes after all others"),
    ],
)
def test_a_job_that_cannot_come_first_is_refused(broker, person, line, name, owner, message):
    spare = person(CAROL, run("s", "0", **SPARE))
    assert spare.line().startswith("waiting")

    with pytest.raises(Refused) as caught:
        put_first(broker, name, owner)

    assert caught.value.message == message
