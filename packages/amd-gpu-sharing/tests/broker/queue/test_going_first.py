"""Short jobs that go first: never at the cost of the wide job that waits, held to a simulator of a day."""

from __future__ import annotations

import random

from amd_gpu_sharing.broker.queue.order import Outlook, serve
from amd_gpu_sharing.broker.requests.demand import numbers_in
from support.day_simulator import Job, simulate
from support.shared_host import ALICE, BOB, CAROL, make_demand, run

SLEEP = ("sleep", "600")
GPUS = 8
ALL = 0xFF
LINES = 1000


def a_line(seed, *, exact):
    """Return 20 jobs that come within an hour, some without a time limit; `exact` ones run until their limit."""
    chance = random.Random(seed)
    jobs = []
    for comes in sorted(chance.randrange(60) for _ in range(20)):
        length = chance.randint(1, 60)
        limit = None if chance.random() < 0.2 else length if exact else length + chance.randint(0, 30)
        jobs.append(Job(comes, chance.choice([1, 1, 1, 2, 2, 4, 8]), length, limit))
    return jobs


def run_line(jobs):
    """Return the minute in which each job starts by the code that is tested, and check each wide job's known start."""
    all_waiters = [make_demand(job.gpus, ALL, seconds=job.limit or 0) for job in jobs]
    starts, running, minute = {}, {}, 0
    while len(starts) < len(jobs):
        running = {gpu: (job, end) for gpu, (job, end) in running.items() if end > minute}
        waiters = {n: all_waiters[n] for n, job in enumerate(jobs) if job.comes <= minute and n not in starts}
        seen = {}

        def look(running=running, minute=minute, seen=seen):
            # Within a minute, only a start changes what there is to see.
            if len(starts) not in seen:
                free = sum(1 << gpu for gpu in range(GPUS) if gpu not in running)
                ends = {gpu: starts[job] + jobs[job].limit for gpu, (job, _) in running.items() if jobs[job].limit}
                seen[len(starts)] = Outlook(now=minute, free=free, ends=ends)
            return seen[len(starts)]

        def try_now(number, among, running=running, minute=minute):
            job = jobs[number]
            free = [gpu for gpu in numbers_in(among) if gpu not in running]
            if len(free) < job.gpus:
                return False
            starts[number] = minute
            running.update((gpu, (number, minute + job.length)) for gpu in free[: job.gpus])
            return True

        serve(waiters, holds_up=waiters.get, try_now=try_now, read_outlook=look)
        # Until one comes or ends, there is nothing that would be served; the simulator looks at each minute.
        changes = {*(job.comes for job in jobs), *(end for _, end in running.values())}
        minute = min((each for each in changes if each > minute), default=minute)
    return [starts[number] for number in range(len(jobs))]


def test_a_thousand_lines_are_served_as_the_simulator_says():
    for seed in range(LINES):
        jobs = a_line(seed, exact=False)

        assert run_line(jobs) == simulate(jobs, GPUS, backfill=True)


def test_no_job_of_a_thousand_lines_starts_later_because_others_go_first():
    earlier = 0
    for seed in range(LINES):
        jobs = a_line(seed, exact=True)
        strict = simulate(jobs, GPUS, backfill=False)

        starts = run_line(jobs)

        assert all(start <= before for start, before in zip(starts, strict, strict=True))
        earlier += sum(start < before for start, before in zip(starts, strict, strict=True))
    assert earlier > LINES


def serve_at(jobs, *, free, ends):
    """Return who is served of jobs that are in their order, by number from 1, at minute 0."""
    waiters = dict(enumerate(jobs, 1))
    served = []

    def try_now(number, among):
        return (free & among).bit_count() >= waiters[number].count and not served.append(number)

    outlook = Outlook(now=0.0, free=free, ends=ends)
    serve(waiters, holds_up=waiters.get, try_now=try_now, read_outlook=lambda: outlook)
    return served


def job(fitting, count, seconds=0.0):
    return make_demand(count, fitting, seconds=seconds)


def test_a_job_without_a_time_limit_does_not_go_first():
    assert serve_at([job(0b11, 2), job(0b11, 1)], free=0b01, ends={1: 60.0}) == []


def test_a_job_that_ends_in_time_goes_first():
    assert serve_at([job(0b11, 2), job(0b11, 1, 60.0)], free=0b01, ends={1: 60.0}) == [2]


def test_a_job_that_ends_a_moment_too_late_does_not_go_first():
    assert serve_at([job(0b11, 2), job(0b11, 1, 60.1)], free=0b01, ends={1: 60.0}) == []


def test_while_a_gpu_may_be_free_at_any_moment_nobody_goes_first():
    assert serve_at([job(0b11, 2), job(0b11, 1, 1.0)], free=0b01, ends={}) == []


def test_a_job_that_goes_first_ends_before_each_job_that_it_overtakes_starts():
    # The second job would take GPU 0 instead of GPU 2, which is free for it after 20 seconds.
    before = [job(0b011, 2), job(0b101, 1)]

    assert serve_at([*before, job(0b001, 1, 20.1)], free=0b001, ends={1: 60.0, 2: 20.0}) == []
    assert serve_at([*before, job(0b001, 1, 20.0)], free=0b001, ends={1: 60.0, 2: 20.0}) == [3]


def test_a_users_short_job_goes_before_a_wide_one_that_waits(host, broker, person):
    broker.set_terms("fifo", "alice=40001:time=2h", "carol=40003:time=1h", "everyone")
    assert person(ALICE, run("train", "0,1,2,3,4,5,6"), command=SLEEP).line() == "got (0, 1, 2, 3, 4, 5, 6)"
    wide = person(BOB, run("wide", "free:8", wait=True))
    assert wide.line().startswith("waiting for 8 GPUs: 1 free of 8")

    endless = person(BOB, run("endless", "free:1", wait=True))
    assert "1 job before this one" in endless.line()
    short = person(CAROL, run("short", "free:1", wait=True), command=SLEEP)

    assert short.line() == "got (7,)"


def test_a_user_who_may_have_gpus_for_longer_meanwhile_does_not_go_first(host, broker, person):
    broker.set_terms("fifo", "alice=40001:time=2h", "carol=40003:gpus=1:time=1h", "everyone")
    assert person(ALICE, run("train", "0,1,2,3,4,5"), command=SLEEP).line() == "got (0, 1, 2, 3, 4, 5)"
    assert person(BOB, run("wide", "free:8")).line().startswith("waiting for 8 GPUs: 2 free of 8")
    first = person(CAROL, run("first", "free:1"), command=SLEEP)
    assert first.line() == "got (6,)"
    second = person(CAROL, run("second", "free:1"), command=SLEEP)
    assert second.line().endswith("you have 1 of 1 GPUs")

    broker.set_terms("fifo", "alice=40001:time=2h", "carol=40003:gpus=2:time=20h", "everyone")
    person(BOB, run("another", "free:1")).line()

    assert second.is_silent()
