"""Rules that end: nobody starts after that, and no job under such a rule runs longer."""

from __future__ import annotations

import signal
import time

import pytest

from amd_gpu_sharing.broker.requests.people import UNTIL_FORM, Permission, format_permission, parse_permission
from support.shared_host import ALICE, BOB, run

HOUR = 3600


def rule(until, limits=""):
    return f"everyone{limits}:until={time.strftime(UNTIL_FORM, time.gmtime(until))}"


def test_a_job_ends_with_its_rule_even_if_its_time_limit_is_longer(broker, person):
    broker.set_terms("fifo", rule(time.time() + HOUR, ":time=5h"))
    alice = person(ALICE, run("a", "0"), command=("sleep", "600"))
    assert alice.line() == "got (0,)"

    broker.pass_time(HOUR + 60)

    assert alice.ended_by() == signal.SIGTERM


def test_a_shorter_time_limit_counts_before_the_end_of_a_rule(broker, person):
    broker.set_terms("fifo", rule(time.time() + 5 * HOUR, ":time=1h"))
    alice = person(ALICE, run("a", "0"), command=("sleep", "600"))
    assert alice.line() == "got (0,)"

    broker.pass_time(HOUR + 60)

    assert alice.ended_by() == signal.SIGTERM


def test_a_start_after_the_end_of_a_rule_is_refused(broker, person):
    broker.set_terms("fifo", rule(time.time() - 60))

    answer = person(ALICE, run("a", "0")).line()

    hint = f"ask the administrator for 'sudo amd-ctk users allow {ALICE}'"
    assert answer == f"3: you may not reserve GPUs on this host ({hint})"


def test_a_job_that_waits_when_its_rule_ends_gets_nothing(broker, person):
    broker.set_terms("fifo", f"alice={ALICE}", f"bob={BOB}")
    alice = person(ALICE, run("a", "0"))
    assert alice.line() == "got (0,)"
    bob = person(BOB, run("b", "0"))
    assert bob.line().startswith("waiting for 1 GPU")

    broker.set_terms("fifo", f"alice={ALICE}", rule(time.time() - 60).replace("everyone", f"bob={BOB}"))
    # A round that has begun still has the rules of before.
    broker.wake()
    alice.end()

    assert bob.answer().startswith("3: you may not reserve GPUs on this host")


def test_a_reservation_is_not_longer_than_its_rule(broker, person):
    broker.set_terms("fifo", rule(time.time() + HOUR))

    answer = person(ALICE, run("a", "0").replace(verb="reserve", seconds=2 * HOUR)).line()

    assert answer.startswith("3: you may have GPUs for ")


@pytest.mark.parametrize("text", ["guest=1001:gpus=1:until=20261204T1700Z", "everyone:time=1h:until=20270101T0000Z"])
def test_a_rule_that_ends_is_written_as_it_is_read(text):
    assert format_permission(parse_permission(text)) == text


def test_the_end_of_a_rule_is_in_utc():
    assert parse_permission("everyone:until=19700102T0001Z") == Permission(who="everyone", until=24 * HOUR + 60)


@pytest.mark.parametrize("value", ["", "Fri", "2026-12-04", "20261304T1700Z", "20261204T1700", "9" * 5000])
def test_an_end_in_another_form_is_refused(value):
    with pytest.raises(ValueError, match="is not a time such as 20261204T1700Z"):
        parse_permission(f"everyone:until={value}")
