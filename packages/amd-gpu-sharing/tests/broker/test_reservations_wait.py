"""Reservations that wait in line with jobs: in their turn, over a restart of the service, and only while asked for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from subprocess import PIPE

from amd_gpu_sharing.broker.requests.people import UNTIL_FORM
from amd_gpu_sharing.broker.requests.protocol import CANCEL, RESERVE, Request
from amd_gpu_tracker.face.tracker import Tracker
from support.shared_host import ALICE, BOB, CAROL, run, users, wait_until

PROGRAM = os.path.join(os.path.dirname(sys.executable), "amd-gpu-sharing")


def reserve(name="debug", gpus="0", seconds=3600, **more):
    return Request(verb=RESERVE, name=name, gpus=gpus, seconds=seconds, wait=True, **more)


def hours_left(host, number):
    uses = Tracker(host).status().gpus[number].containers
    return [None if use.until is None else round((use.until - time.time()) / 3600) for use in uses]


def test_gpus_that_are_free_are_reserved_without_a_wait(host, person):
    assert person(ALICE, reserve(gpus="free:2")).line() == "got (0, 1)"

    assert users(host) == {0: ["40001/debug"], 1: ["40001/debug"]}


def test_a_reservation_waits_for_a_job_and_then_needs_no_process(host, broker, person):
    alice = person(ALICE, run("train", "0"))
    alice.line()
    bob = person(BOB, reserve())
    assert bob.line() == "waiting for 1 GPU: 0 free of 1 that fits; GPU 0: 40001's train since 12:00"

    alice.end()

    assert bob.answer() == "got (0,)"
    bob.end()
    # It needs no process.
    assert (users(host), hours_left(host, 0)) == ({0: ["40002/debug"]}, [1])
    assert any(line.startswith("reserved: job debug of user 40002") for line in broker.lines())


def test_reservations_and_jobs_are_served_in_one_order(host, person):
    first = person(ALICE, run("train", "0"))
    first.line()
    bob = person(BOB, reserve())
    bob.line()
    carol = person(CAROL, run("next", "0"))
    assert carol.line() == (
        "waiting for 1 GPU: 0 free of 1 that fits, 1 job before this one (40002's debug: 1 GPU);"
        " GPU 0: 40001's train since 12:00"
    )

    first.end()

    assert bob.answer() == "got (0,)"
    assert carol.is_silent()
    assert users(host) == {0: ["40002/debug"]}


def test_a_restart_of_the_service_keeps_the_place_of_a_reservation(host, broker, person):
    alice = person(ALICE, run("train", "0"))
    alice.line()
    bob = person(BOB, reserve(seconds=7200))
    bob.line()
    (before,) = Tracker(host).waiting()

    broker.kill()
    broker.start()

    (after,) = Tracker(host).waiting()
    assert (after.name, after.number, after.since) == ("debug", before.number, before.since)
    alice.end()
    assert bob.answer() == "got (0,)"
    assert (users(host), hours_left(host, 0)) == ({0: ["40002/debug"]}, [2])


def test_a_person_at_the_limit_waits_with_a_reservation(host, broker, person):
    broker.set_terms("fifo", "everyone:gpus=1")
    alice = person(ALICE, run("train", "0"))
    alice.line()
    waiting = person(ALICE, reserve(gpus="free:1"))
    assert waiting.line() == "waiting for 1 GPU: 7 free of 8; you have 1 of 1 GPUs"

    alice.end()

    assert waiting.answer() == "got (0,)"


def test_a_reservation_that_a_person_no_longer_waits_for_is_never_made(host, person):
    alice = person(ALICE, run("train", "0"))
    alice.line()
    bob = person(BOB, reserve())
    bob.line()
    bob.close()

    alice.end()

    wait_until(lambda: users(host) == {})
    carol = person(CAROL, run("next", "0"))
    assert carol.line() == "got (0,)"


def test_a_waiting_reservation_is_cancelled_by_its_name(person):
    person(ALICE, run("train", "0")).line()
    bob = person(BOB, reserve())
    bob.line()

    assert person(BOB, Request(verb=CANCEL, name="debug")).line() == "got ()"

    assert bob.answer() == "12: the job debug was removed from the queue"


def test_a_wait_that_is_too_long_ends_as_that_of_a_job(person):
    person(ALICE, run("train", "0")).line()

    bob = person(BOB, reserve(), timeout=0.1)

    assert bob.answer().startswith("12: there was no GPU for debug within ")


def test_a_reservation_is_no_longer_than_a_rule_that_ends_meanwhile(host, broker, person):
    alice = person(ALICE, run("train", "0"))
    alice.line()
    bob = person(BOB, reserve(seconds=5 * 3600))
    bob.line()
    until = time.strftime(UNTIL_FORM, time.gmtime(time.time() + 7260))

    broker.set_terms("fifo", f"everyone:until={until}")
    broker.wake()
    alice.end()

    assert bob.answer() == "got (0,)"
    assert hours_left(host, 0) == [2]


def test_the_command_says_what_it_waits_for_and_then_what_it_reserved(host, person):
    alice = person(ALICE, run("train", "0"))
    alice.line()
    words = ("reserve", "0", "--for=1h", "--name=debug", "--wait")
    environment = {**os.environ, "AMD_CTK_HOST_ROOT": host.root}
    command = subprocess.Popen([PROGRAM, *words], env=environment, stdout=PIPE, stderr=PIPE, text=True)
    assert command.stderr.readline().startswith("Working on the simulated host")
    waited = command.stderr.readline()

    alice.end()
    printed, more = command.communicate()

    assert (command.returncode, more) == (0, "")
    assert re.fullmatch(r"waiting for 1 GPU: 0 free of 1 that fits; GPU 0: .*40001's train since .*\n", waited)
    assert re.fullmatch(r"GPU 0 reserved as debug for 1 h 0 min after .+ s\n", printed)


def test_the_command_waits_no_longer_than_it_says(host, person):
    person(ALICE, run("train", "0")).line()
    words = ("reserve", "0", "--for=1h", "--name=debug", "--wait=1s")

    ended = subprocess.run(
        [PROGRAM, *words],
        env={**os.environ, "AMD_CTK_HOST_ROOT": host.root},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 12
    assert re.fullmatch(r"there was no GPU for debug within .+ s\n", ended.stderr.splitlines(keepends=True)[-1])
