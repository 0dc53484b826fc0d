"""A spare job has GPUs that are left over, and ends as soon as somebody waits for them."""

from __future__ import annotations

import re
import signal

from amd_gpu_tracker.broker.protocol import KEEP, RESERVE, Request
from support.shared_host import ALICE, BOB, run, users

SLEEP = ("sleep", "600")
ENDED = "amd-ctk: somebody waits for the GPUs of job worker: it is ended"


def preempted(broker) -> list[str]:
    return [line.partition(", process")[0] for line in broker.lines() if line.startswith("preempted")]


def test_a_spare_job_ends_at_once_when_somebody_waits_for_its_gpu(host, broker, person):
    worker = person(ALICE, run("worker", "0", spare=True), command=SLEEP)
    assert worker.line() == "got (0,)"

    bob = person(BOB, run("train", "0"))

    assert worker.line() == ENDED
    assert worker.ended_by() == signal.SIGTERM
    assert bob.answer() == "got (0,)"
    assert preempted(broker) == ["preempted: 40001/worker: job train of user 40002"]
    assert users(host) == {0: ["40002/train"]}


def test_as_few_spare_jobs_end_as_serve_who_waits(host, broker, person):
    workers = [person(ALICE, run(f"worker{each}", f"{each}", spare=True), command=SLEEP) for each in range(8)]
    assert [worker.line() for worker in workers] == [f"got ({each},)" for each in range(8)]

    bob = person(BOB, run("train", "free:2"))

    assert re.fullmatch(r"got \(\d, \d\)", bob.answer())
    assert len(preempted(broker)) == 2
    assert sorted(users(host)) == list(range(8))


def test_a_spare_job_ends_for_no_other_spare_job(host, broker, person):
    assert person(ALICE, run("worker", "0", spare=True), command=SLEEP).line() == "got (0,)"

    other = person(BOB, run("other", "0", spare=True))

    assert other.line() == "waiting for 1 GPU: 0 free of 1 that fits"
    person(BOB, run("elsewhere", "1")).line()
    assert (preempted(broker), users(host)[0]) == ([], ["40001/worker"])


def test_a_spare_job_that_waits_holds_up_nobody_and_is_served_last(host, broker, person):
    holder = person(ALICE, run("holder", "0"))
    assert holder.line() == "got (0,)"
    spare = person(ALICE, run("spare", "0-1", spare=True))
    assert spare.line() == "waiting for 2 GPUs: 1 free of 2 that fit"

    # One asks without waiting, one waits behind the spare job.
    assert person(BOB, run("now", "1", wait=False)).line() == "got (1,)"
    late = person(BOB, run("late", "0"))
    assert late.line() == "waiting for 1 GPU: 0 free of 1 that fits"
    holder.close()

    assert late.line() == "got (0,)"
    assert users(host)[0] == ["40002/late"]


def test_no_limit_counts_spare_jobs(host, broker, person):
    broker.say("fifo", "everyone:gpus=1")
    assert person(ALICE, run("worker", "0-5", spare=True), command=SLEEP).line() == "got (0, 1, 2, 3, 4, 5)"

    assert person(ALICE, run("train", "6", wait=False)).line() == "got (6,)"
    refused = person(ALICE, run("more", "7", wait=False)).line()

    assert refused.startswith("1: you have 1 of 1 GPUs")


def test_a_reservation_by_hand_waits_for_nobody_and_ends_no_spare_job(broker, person):
    assert person(ALICE, run("worker", "0", spare=True), command=SLEEP).line() == "got (0,)"

    answer = person(BOB, Request(verb=RESERVE, name="debug", gpus="0", seconds=60)).line()

    assert answer.startswith("1: GPUs [0] are exclusive and already in use")
    assert preempted(broker) == []


def test_a_spare_job_cannot_be_kept_and_is_no_part_of_a_reservation(broker, person):
    assert person(ALICE, run("worker", "0", spare=True), command=SLEEP).line() == "got (0,)"
    person(ALICE, Request(verb=RESERVE, name="debug", gpus="1", seconds=60)).line()

    kept = person(ALICE, Request(verb=KEEP, name="worker")).line()
    inside = person(ALICE, run("inside", "", reservation="debug", spare=True)).line()

    assert kept.startswith("11: worker lasts until somebody waits for its GPUs")
    assert inside.startswith("2: what is reserved is not spare")


def test_a_broker_that_starts_again_ends_the_spare_job_for_who_waits(host, broker, person):
    worker = person(ALICE, run("worker", "0", spare=True), command=SLEEP)
    assert worker.line() == "got (0,)"
    broker.kill()
    broker.start()

    bob = person(BOB, run("train", "0"))

    assert worker.line() == ENDED
    assert bob.answer() == "got (0,)"
    assert users(host) == {0: ["40002/train"]}
