"""Accounts that expire: nobody starts under one that has expired, and no job of one runs longer than it."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest

from amd_gpu_sharing.broker.requests.protocol import RESERVE, Request
from amd_gpu_sharing.rules.accounts import read_expiries
from support.shared_host import ALICE, BOB, run, users

DAY = 24 * 3600
EXPIRED = "3: the account 40001 has expired (ask the administrator)"


@pytest.fixture
def expire(host):
    """Return a function that lets alice's account expire in so many days, like `chage --expiredate`."""
    Path(host.path("/etc/passwd")).write_text(
        f"root:x:0:0::/root:/bin/sh\nalice:x:{ALICE}:{ALICE}::/home/alice:/bin/sh\nbob:x:{BOB}:{BOB}::/home/bob:/bin/sh\n"
    )

    def expire(days):
        today = int(time.time() // DAY)
        shadow = Path(host.path("/etc/shadow"))
        new = shadow.with_suffix(".new")
        new.write_text(
            f"root:*:20000:0:99999:7::1:\nalice:!:20000:0:99999:7::{today + days}:\nbob:!:20000:0:99999:7:::\n"
        )
        os.replace(new, shadow)

    return expire


def test_a_start_in_an_open_session_of_an_expired_account_is_refused_and_others_start(expire, broker, person):
    expire(0)

    assert person(ALICE, run("train", "0")).line() == EXPIRED
    assert person(BOB, run("train", "0")).line() == "got (0,)"


def test_a_job_that_waits_when_the_account_expires_gets_nothing(expire, broker, person):
    bob = person(BOB, run("b", "0"))
    bob.line()
    alice = person(ALICE, run("a", "0"))
    assert alice.line().startswith("waiting for 1 GPU")

    expire(0)
    broker.wake()
    bob.end()

    assert alice.answer() == EXPIRED


def test_a_job_ends_with_the_account(expire, broker, person):
    # Of two days, at least one is left, and no midnight is near.
    expire(2)
    alice = person(ALICE, run("train", "0"), command=("sleep", "600"))
    assert alice.line() == "got (0,)"

    broker.pass_time(2 * DAY)

    assert alice.ended_by() == signal.SIGTERM


def test_a_job_that_waits_when_the_account_gets_a_date_ends_with_the_account(expire, broker, person):
    bob = person(BOB, run("b", "0"))
    bob.line()
    alice = person(ALICE, run("a", "0"), command=("sleep", "600"))
    assert alice.line().startswith("waiting for 1 GPU")

    expire(2)
    broker.wake()
    bob.end()

    assert alice.answer() == "got (0,)"
    broker.pass_time(2 * DAY)
    assert alice.ended_by() == signal.SIGTERM


def test_a_reservation_is_not_longer_than_the_account(expire, broker, person):
    expire(2)

    refused = person(ALICE, Request(verb=RESERVE, name="debug", gpus="0", seconds=2 * DAY)).line()

    assert re.fullmatch(r"3: you may have GPUs for (\S+) at most \(write --for=\1, or less\)", refused)


def test_a_reservation_for_later_of_an_account_that_has_expired_by_then_is_missed(host, expire, broker, person):
    later = Request(verb=RESERVE, name="demo", gpus="0", seconds=3600, start=time.time() + 10 * 3600)
    assert person(ALICE, later).line() == "got (0,)"
    expire(0)
    # Once it refuses, the broker has read the new date; then the time may come.
    assert person(ALICE, run("train", "1")).line() == EXPIRED

    broker.pass_time(10 * 3600 + 60)

    broker.wait_for_line("missed: demo of user 40001, planned before: GPUs []")
    assert users(host) == {}


def test_the_account_of_root_does_not_expire_for_gpus(expire, broker, person):
    expire(0)

    assert person(0, run("train", "0")).line() == "got (0,)"


@pytest.mark.parametrize(
    "line",
    [
        "alice:!:20000:0:99999:7:::",
        "alice:!:20000:0:99999:7::-1:",
        "alice:!:20000:0:99999:7::9999999999:",
        "alice:!:20000:0:99999:7::\N{SUPERSCRIPT TWO}:",
        "alice:!:20000:0:99999:7::1",
        "carol:!:20000:0:99999:7::1:",
        "",
    ],
)
def test_a_line_without_a_day_means_that_the_account_does_not_expire(host, expire, line):
    Path(host.path("/etc/shadow")).write_text(f"{line}\n", encoding="utf-8")

    assert read_expiries(host) == {}


def test_what_is_no_plain_file_is_not_read(host, expire):
    os.mkfifo(host.path("/etc/shadow"))

    assert read_expiries(host) == {}
