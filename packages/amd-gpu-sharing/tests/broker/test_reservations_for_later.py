"""Reservations for later: they stand first from the moment they are made, and only jobs that end in time go before."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from amd_gpu_sharing.broker.requests.protocol import CANCEL, KEEP, RESERVE, Request
from amdgpu_discovery.numbering import locate_gpus
from support.shared_host import ALICE, BOB, CAROL, run, users, wait_until

PROGRAM = os.path.join(os.path.dirname(sys.executable), "amd-gpu-sharing")
HOUR, DAY = 3600, 86400
MOMENT = r"[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d \S+"


def later(name="demo", gpus="0", hours=10, *, lasts=2, **more):
    start = time.time() + hours * HOUR
    return Request(verb=RESERVE, name=name, gpus=gpus, seconds=lasts * HOUR, start=start, **more)


def test_a_planned_reservation_begins_at_its_time_and_ends_after_its_length(host, broker, person):
    assert person(ALICE, later()).line() == "got (0,)"
    assert users(host) == {}

    broker.pass_time(10 * HOUR + 60)
    wait_until(lambda: users(host) == {0: ["40001/demo"]})
    broker.pass_time(2 * HOUR)

    wait_until(lambda: users(host) == {})
    lines = [re.sub(MOMENT, "THEN", line) for line in broker.lines()]
    assert "planned: demo of user 40001: GPUs [0] from THEN" in lines
    assert "reserved: demo of user 40001, planned before: GPUs [0]" in lines


def test_jobs_get_its_gpu_before_only_if_their_limit_and_the_time_after_sigterm_end_in_time(host, broker, person):
    broker.set_terms("fifo", "everyone")
    person(ALICE, later()).line()

    refused = person(BOB, run("long", "0", wait=False)).line()
    assert re.fullmatch(
        rf"1: GPU 0 is reserved from {MOMENT} \(see 'amd-ctk queue'; a job that ends before gets them\)", refused
    )
    waiting = person(BOB, run("longer", "0"))
    assert waiting.line() == "waiting for 1 GPU: 0 free of 1 that fits, GPU 0 reserved for later"
    waiting.close()
    wait_until(lambda: not os.listdir(host.path("/run/amd-container-toolkit/waiting")))
    broker.set_terms("fifo", "everyone:time=10h")
    assert person(BOB, run("as-long", "0", wait=False)).line().startswith("1: GPU 0 is reserved from ")
    broker.set_terms("fifo", "everyone:time=9h")
    assert person(BOB, run("short", "0", wait=False)).line() == "got (0,)"


def test_choices_leave_its_gpu_out(person):
    person(ALICE, later(gpus="0")).line()

    assert person(BOB, run("wide", "free:7", wait=False)).line() == "got (1, 2, 3, 4, 5, 6, 7)"


def test_a_planned_reservation_gets_gpus_that_are_surely_free_then(broker, person):
    broker.set_terms("fifo", f"alice={ALICE}", "everyone:time=1h")
    person(ALICE, run("forever", "0-2")).line()
    person(BOB, run("an-hour", "3-6")).line()

    assert person(CAROL, later(gpus="auto:4", lasts=1)).line() == "got (3, 4, 5, 6)"


def test_a_planned_reservation_behind_a_job_without_a_limit_is_not_promised_and_begins_when_that_ends(
    host, broker, person
):
    alice = person(ALICE, run("forever", "3"))
    alice.line()
    assert person(BOB, later(gpus="3")).line() == "not promised: GPU 3's job has no limit"
    broker.pass_time(10 * HOUR + 60)
    # It stands before those who wait.
    carol = person(CAROL, run("next", "3"))
    carol.line()
    assert users(host) == {3: ["40001/forever"]}

    alice.end()

    wait_until(lambda: users(host) == {3: ["40002/demo"]})


def test_a_restart_of_the_machine_keeps_it(host, broker, person):
    person(ALICE, later()).line()
    broker.kill()
    broker.clock.forward(11 * HOUR)
    broker.start()

    wait_until(lambda: users(host) == {0: ["40001/demo"]})


def test_a_restart_of_the_service_between_the_reservation_and_the_record_of_it_reserves_nothing_twice(
    host, broker, person
):
    person(ALICE, later()).line()
    path = host.path("/var/lib/amd-container-toolkit/reserved-later.json")
    with open(path, "rb") as file:
        planned = file.read()
    broker.pass_time(10 * HOUR + 60)
    wait_until(lambda: users(host) == {0: ["40001/demo"]})
    broker.kill()
    with open(path, "wb") as file:
        file.write(planned)

    broker.start()

    wait_until(lambda: not os.path.exists(path))
    assert users(host) == {0: ["40001/demo"]}


def test_a_damaged_file_plans_nothing_and_keeps_nobody_from_gpus(host, broker, person):
    broker.kill()
    Path(host.path("/var/lib/amd-container-toolkit/reserved-later.json")).write_text('{"version":1,"plans":[7]}')
    broker.start()

    assert person(BOB, run("train", "0")).line() == "got (0,)"


def test_a_spare_job_ends_when_it_begins(host, broker, person):
    broker.set_terms("fifo", "everyone")
    spare = person(BOB, run("spare", "0", spare=True), command=("sleep", "600"))
    spare.line()
    person(ALICE, later()).line()

    broker.pass_time(10 * HOUR + 60)

    assert spare.ended_by() == signal.SIGTERM
    wait_until(lambda: users(host) == {0: ["40001/demo"]})


def test_a_planned_reservation_whose_time_passed_while_the_machine_was_off_is_missed(host, broker, person):
    person(ALICE, later()).line()
    broker.kill()
    broker.clock.forward(13 * HOUR)
    broker.start()

    broker.wait_for_line("missed: demo of user 40001, planned before: GPUs []")
    assert person(BOB, run("train", "0")).line() == "got (0,)"


def test_a_planned_reservation_of_a_lost_gpu_begins_when_the_gpu_is_back(host, broker, person):
    person(ALICE, later()).line()
    broker.kill()
    # While the machine starts, GPUs appear one after another.
    node = host.path(f"/sys/class/kfd/kfd/topology/nodes/{locate_gpus(host)[0].kfd_node}")
    os.rename(node, f"{host.root}/away")
    broker.clock.forward(11 * HOUR)
    broker.start()
    broker.wake()
    assert users(host) == {}

    os.rename(f"{host.root}/away", node)
    broker.pass_time(10)

    wait_until(lambda: users(host) == {0: ["40001/demo"]})


def test_two_at_the_same_time_are_refused_and_one_after_the_other_are_not(person):
    person(ALICE, later(hours=10)).line()

    assert re.fullmatch(
        rf"1: GPUs \[0\] are reserved from {MOMENT} \(see 'amd-ctk queue', and choose another time\)",
        person(BOB, later(hours=11)).line(),
    )
    assert person(BOB, later(hours=12.1)).line() == "got (0,)"


@pytest.mark.parametrize("hours", [-1, 14 * 24 + 1])
def test_a_planned_reservation_begins_within_14_days(person, hours):
    refused = person(ALICE, later(hours=hours)).line()

    assert re.fullmatch(rf"2: {MOMENT} is too late, or over \(name a time within the next 14 days\)", refused)


def test_a_person_has_two_at_most(person):
    assert person(ALICE, later("one", "0")).line() == "got (0,)"
    assert person(ALICE, later("two", "1")).line() == "got (1,)"

    refused = person(ALICE, later("three", "2")).line()

    assert refused == "3: at most 2 reservations of a person begin later (see 'amd-ctk queue', and end one)"


def test_its_owner_ends_it_by_its_name_and_another_does_not(host, broker, person):
    person(ALICE, later()).line()
    cancel = Request(verb=CANCEL, name="demo")
    assert person(BOB, cancel).line() == "11: no job demo waits for GPUs (see 'amd-ctk queue')"

    assert person(ALICE, cancel).line() == "got ()"

    assert person(BOB, run("train", "0", wait=False)).line() == "got (0,)"
    assert users(host) == {0: ["40002/train"]}


def test_a_user_whose_rule_is_gone_gets_none_when_its_time_comes(host, broker, person):
    broker.set_terms("fifo", f"alice={ALICE}", f"bob={BOB}")
    person(ALICE, later()).line()

    broker.set_terms("fifo", f"bob={BOB}")
    # Once it refuses, the broker has read the new rules; then the time may come.
    assert person(ALICE, run("train", "1", wait=False)).line().startswith("3: ")
    broker.pass_time(10 * HOUR + 60)

    broker.wait_for_line("missed: demo of user 40001, planned before: GPUs []")
    assert users(host) == {}


def test_a_planned_reservation_is_no_longer_than_the_rule_allows(broker, person):
    broker.set_terms("fifo", "everyone:time=1h")

    assert person(ALICE, later(lasts=2)).line() == "3: you may have GPUs for 1h at most (write --for=1h, or less)"


def test_a_job_is_not_kept_into_it(person):
    person(ALICE, Request(verb=RESERVE, name="debug", gpus="0", seconds=HOUR)).line()
    assert person(BOB, later(hours=10)).line() == "got (0,)"

    refused = person(ALICE, Request(verb=KEEP, name="debug", seconds=11 * HOUR)).line()

    assert re.fullmatch(rf"3: GPU 0 is reserved from {MOMENT} \(keep it for less\)", refused)
    assert person(ALICE, Request(verb=KEEP, name="debug", seconds=9 * HOUR)).line() == "got ()"


def test_the_command_prints_the_zone_and_lists_show_it(host, broker):
    def command(*words):
        environment = {**os.environ, "AMD_CTK_HOST_ROOT": host.root, "TZ": "UTC"}
        return subprocess.run([PROGRAM, *words], env=environment, capture_output=True, text=True, check=False)

    answer = command("reserve", "0", "--for=4h", "--at=tomorrow 9:00", "--name=demo")

    assert answer.returncode == 0
    assert re.fullmatch(r"GPU 0 reserved as demo from \S+ \S+ 09:00 UTC for 4 h 0 min\n", answer.stdout)
    listed = command("queue").stdout.splitlines()
    assert listed[:2] == ["No job waits for GPUs", ""]
    assert listed[2].split() == ["Person", "Name", "GPUs", "Numbers", "Begins", "Lasts"]
    assert re.fullmatch(r"\S+ +demo +1 +0 +\S+ \S+ 09:00 UTC +4 h 0 min", listed[3])
    (planned,) = json.loads(command("queue", "--json").stdout)["planned"]
    assert (planned["name"], planned["gpus"], planned["seconds"]) == ("demo", [0], 4 * HOUR)
    excluded = command("reserve", "0", "--for=4h", "--at=tomorrow", "--wait")
    assert (excluded.returncode, excluded.stderr.splitlines()[-1]) == (
        2,
        "--at and --wait exclude each other (leave out one of them)",
    )
