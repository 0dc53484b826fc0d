"""Broker and client, killed at any system call: nobody has a GPU twice, and the next is served.

The kernel stops the victim at each of its system calls. With TRACKER_KILL_EVERY=1 it is killed at every one.
"""

from __future__ import annotations

import os
from contextlib import suppress

import pytest

from amd_gpu_sharing.broker.requests.client import send_request
from amd_gpu_sharing.broker.requests.people import Terms
from amd_gpu_sharing.broker.serve import serve
from amd_gpu_tracker.face.tracker import Tracker
from support.other_user import become
from support.shared_host import ALICE, BOB, CAROL, run, users, wait_until
from support.traced import Traced

EVERY = int(os.environ.get("TRACKER_KILL_EVERY", "97"))
MOST_CALLS = 4000


class Served(Exception):
    """The broker has served the request, and sleeps."""


@pytest.fixture(autouse=True)
def _ptrace():
    """Skip where one process may not trace another."""
    try:
        with Traced(os.getpid):
            pass
    except OSError as error:
        pytest.skip(f"ptrace is not permitted: {error}")


def last_line(person):
    line = person.line()
    while line.startswith("waiting"):
        line = person.line()
    return line


def test_a_broker_killed_at_a_system_call_gives_nothing_twice(host, broker, person):
    terms = broker.terms()
    broker.kill()
    calls, is_served = 1, False
    while not is_served:
        asked = []

        def ask_once(asked=asked):
            if not asked:
                # On a busy machine the broker is killed before they have connected.
                asked.append(person(ALICE, run("a", "0"), is_patient=True))
            elif not asked[0].is_silent(0):
                # It makes no call before the next request comes.
                raise Served

        with Traced(lambda: serve(host, lambda _: Terms(permissions=terms), listen=broker.socket)) as victim:
            with suppress(Served):
                for _ in range(calls):
                    assert victim.step(ask_once)
            is_served = bool(asked and not asked[0].is_silent(0))
            assert sum(map(len, users(host).values())) <= 1
        broker.start()
        with suppress(Served):
            ask_once()

        assert last_line(asked[0]) == "got (0,)"
        assert users(host) == {0: ["40001/a"]}
        bob = person(BOB, run("b", "0"))
        assert bob.line() == "waiting for 1 GPU: 0 free of 1 that fits; GPU 0: 40001's a since 12:00"
        asked[0].end()
        assert bob.line() == "got (0,)"
        bob.end()
        wait_until(lambda: users(host) == {})
        broker.kill()
        calls += EVERY
        assert calls < MOST_CALLS
    broker.start()


@pytest.mark.parametrize("is_held", [True, False])
def test_a_client_killed_at_a_system_call_keeps_nobody(host, broker, person, is_held):
    def live():
        become(ALICE)
        send_request(broker.socket, run("victim", "0"), notify=str)
        os.execv("/bin/sh", ["sh", "-c", ":"])

    calls, reached = 1, True
    while reached:
        holder = person(CAROL, run("holder", "0")) if is_held else None
        if holder:
            assert holder.line() == "got (0,)"
        ends = [holder.end] if holder else []
        with Traced(live) as victim:
            reached = all(victim.step(lambda ends=ends: ends.pop()() if ends else None) for _ in range(calls))
            assert max(map(len, users(host).values()), default=0) <= 1
        for end in ends:
            end()

        with_next = person(BOB, run("next", "0"))
        assert last_line(with_next) == "got (0,)"
        assert users(host) == {0: ["40002/next"]}
        with_next.end()
        wait_until(lambda: users(host) == {} and Tracker(host).waiting() == [])
        calls += EVERY // 4
    assert calls > 20
