"""When a job starts at the latest, by the time limits of those who have GPUs and of those before it."""

from __future__ import annotations

import random
import re

import pytest

from amd_gpu_sharing.broker.queue.order import MOST_BEFORE, latest_start
from amd_gpu_sharing.broker.requests.demand import numbers_in
from amd_gpu_sharing.broker.requests.protocol import PREVIEW, RESERVE, Request
from amd_gpu_tracker.face.tracker import Tracker
from support.shared_host import ALICE, BOB, CAROL, make_demand, run, wait_until

ALL = 0b1111


def waiter(count, fitting=ALL, seconds=100.0, **more):
    return make_demand(count, fitting, seconds=seconds, **more)


def test_a_job_starts_when_enough_of_the_gpus_that_fit_it_are_free():
    ends = {0: 50.0, 1: 10.0, 2: 30.0, 3: 20.0}

    assert [latest_start(waiter(count), [], ends) for count in (1, 2, 3, 4)] == [10.0, 20.0, 30.0, 50.0]
    assert latest_start(waiter(1, fitting=0b0101), [], ends) == 30.0


def test_a_job_starts_at_the_latest_after_those_before_it():
    ends = dict.fromkeys(range(4), 10.0)

    assert latest_start(waiter(2), [waiter(2)], ends) == 10.0
    assert latest_start(waiter(3), [waiter(2)], ends) == 110.0
    assert latest_start(waiter(1), [waiter(4), waiter(2, seconds=50.0)], ends) == 110.0
    assert latest_start(waiter(4), [waiter(4), waiter(2, seconds=50.0)], ends) == 160.0


def test_any_gpu_of_another_choice_may_be_the_one_that_is_taken():
    ends = dict.fromkeys(range(4), 10.0)

    assert latest_start(waiter(1, fitting=0b0011), [waiter(1, fitting=0b0111)], ends) == 110.0
    assert latest_start(waiter(1, fitting=0b0011), [waiter(1, fitting=0b1100)], ends) == 10.0


def test_a_missing_time_limit_leaves_the_latest_start_unknown():
    ends = {0: 50.0, 1: 10.0}

    assert latest_start(waiter(3), [], ends) is None
    assert latest_start(waiter(1), [waiter(3)], ends) is None
    assert latest_start(waiter(1), [waiter(1, seconds=0.0)], ends) == 50.0
    assert latest_start(waiter(2), [waiter(1, seconds=0.0)], ends) is None
    assert latest_start(waiter(1, fitting=0b01), [waiter(1, fitting=0b10, seconds=0.0)], ends) == 50.0
    assert latest_start(waiter(1), [waiter(1)] * (MOST_BEFORE + 1), ends) is None


def test_gpus_of_one_hive_may_be_the_last_that_are_free():
    assert latest_start(waiter(2, is_particular=True), [], {0: 1.0, 1: 2.0, 2: 3.0, 3: 4.0}) == 4.0


@pytest.mark.parametrize("seed", range(300))
def test_no_job_that_ends_in_time_lets_another_start_later_than_said(seed):
    chosen = random.Random(seed)
    ends = {number: float(chosen.randint(1, 50)) for number in range(4)}
    among = [ALL] if seed % 2 else [0b0011, 0b0111, 0b1110, ALL]
    jobs = []
    for _ in range(chosen.randint(1, 6)):
        fitting = chosen.choice(among)
        jobs.append(waiter(chosen.randint(1, fitting.bit_count()), fitting, float(chosen.randint(1, 60))))

    said = latest_start(jobs[-1], jobs[:-1], ends)

    assert said is not None
    for _ in range(20):
        assert started(jobs, ends, chosen) <= said


def started(jobs, ends, chosen):
    """Return when the last job starts if all serve one after the other, and each ends at its limit or before."""
    free_at = {number: end * chosen.uniform(0.1, 1) for number, end in ends.items()}
    start = 0.0
    begun = []
    for job in jobs:
        fitting = sorted(numbers_in(job.fitting), key=lambda number: free_at[number])
        # Nobody overtakes one who wants a GPU of the same ones.
        before = [at for at, other in begun if other.fitting & job.fitting]
        start = max([free_at[fitting[job.count - 1]], *before])
        able = [number for number in fitting if free_at[number] <= start]
        for number in chosen.sample(able, job.count):
            free_at[number] = start + job.seconds * chosen.uniform(0.1, 1)
        begun.append((start, job))
    return start


def seconds_in(line):
    """Return the seconds that a line ends with, as 59 min 20 s."""
    found = re.search(r"; at the latest in (?:(\d+) h )?(\d+) min(?: (\d+) s)?$", line)
    assert found, line
    hours, minutes, seconds = (int(each or 0) for each in found.groups())
    return hours * 3600 + minutes * 60 + seconds


def test_a_person_is_told_before_when_all_limits_let_the_job_start(broker, person):
    broker.set_terms("fifo", "everyone:time=2h")
    person(ALICE, Request(verb=RESERVE, name="debug", gpus="0-3", seconds=3600)).line()
    person(CAROL, run("eval", "4-7")).line()

    wide = person(BOB, run("wide", "free:8")).line()
    late = person(ALICE, run("late", "free:1")).line()
    previewed = person(CAROL, Request(verb=PREVIEW, name="later", gpus="free:4", wait=True)).line()

    assert 7000 < seconds_in(wide) <= 7230
    assert 14200 < seconds_in(late) <= 14460
    # It starts beside the job before it, or when that ends.
    assert 14200 < seconds_in(previewed) <= 14460


def test_the_list_has_what_a_person_was_told(host, broker, person):
    broker.set_terms("fifo", "everyone:time=1h")
    person(ALICE, run("holder", "0")).line()
    person(ALICE, run("other", "1")).line()
    seconds = seconds_in(person(BOB, run("train", "0")).line())

    # The file is written after the word.
    wait_until(lambda: Tracker(host).waiting()[0].latest is not None)
    [ticket] = Tracker(host).waiting()
    assert ticket.latest is not None
    assert abs(ticket.latest - ticket.since - seconds) < 90


def test_a_job_without_a_time_limit_leaves_the_latest_start_unknown(host, broker, person):
    broker.set_terms("fifo", f"alice={ALICE}", "everyone:time=1h")
    person(ALICE, run("holder", "0")).line()

    assert person(BOB, run("train", "0")).line() == (
        "waiting for 1 GPU: 0 free of 1 that fits; GPU 0: 40001's holder since 12:00"
    )
    assert [ticket.latest for ticket in Tracker(host).waiting()] == [None]


def test_a_job_that_waits_for_a_spare_one_reads_when_that_is_ended(broker, person):
    stubborn = ("sh", "-c", "trap '' TERM; echo begun; while :; do sleep 0.1; done")
    worker = person(ALICE, run("worker", "0", spare=True), command=stubborn)
    assert [worker.line(), worker.line()] == ["got (0,)", "begun"]

    previewed = person(BOB, Request(verb=PREVIEW, name="train", gpus="0", wait=True)).line()

    assert re.fullmatch(r"waiting for 1 GPU: 0 free of 1 that fits; at the latest in (29|30) s", previewed)


def test_a_job_that_waits_for_gpus_without_a_known_end_reads_who_has_them(broker, person):
    broker.set_terms("fifo", "everyone")
    person(ALICE, Request(verb=RESERVE, name="debug", gpus="0-1", seconds=3600)).line()
    inside = person(ALICE, run("notebook", "", reservation="debug"))
    inside.line()
    for number, name in enumerate(("a", "b", "c"), 2):
        person(CAROL, run(name, str(number))).line()

    # A job in a reservation is part of that; who came first is named first.
    assert person(BOB, run("train", "0-2")).line() == (
        "waiting for 3 GPUs: 0 free of 3 that fit; GPUs 0 1: 40001's debug since 12:00, GPU 2: 40003's a since 12:00"
    )
    assert person(CAROL, run("wide", "0-4")).line() == (
        "waiting for 5 GPUs: 0 free of 5 that fit, 1 job before this one (40002's train: 3 GPUs);"
        " GPUs 0 1: 40001's debug since 12:00, GPU 2: a since 12:00, GPU 3: b since 12:00 and 1 more"
    )


@pytest.mark.parametrize("rule", ["everyone:gpus=1", "everyone:gpus=1:time=1h"])
def test_an_own_limit_in_the_way_is_named_and_neither_others_nor_a_time(broker, person, rule):
    broker.set_terms("fifo", rule)
    person(ALICE, run("first", "0")).line()
    person(BOB, run("other", "1")).line()

    said = person(ALICE, run("second", "1")).line()

    assert said == "waiting for 1 GPU: 0 free of 1 that fits; you have 1 of 1 GPUs"


def test_a_line_that_would_be_too_long_names_no_holders(broker, person):
    broker.set_terms("fifo", "everyone")
    person(ALICE, run("a" * 64, "0")).line()
    for letter in "bcdef":
        person(CAROL, run(letter * 64, "0")).line()

    said = person(BOB, run("last", "0")).line()

    assert said.endswith(f"40003's {'f' * 64}: 1)")
