"""A spare job has GPUs that are left over, and ends as soon as somebody waits for them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess

import pytest

from amd_gpu_sharing.broker.jobs.journal import write_line
from amd_gpu_sharing.broker.queue.order import choose_preempted
from amd_gpu_sharing.broker.requests.protocol import KEEP, RESERVE, Request
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.claims.container import StartingContainer, claim_nodes
from amd_gpu_tracker.leases.processes import Processes
from amdgpu_discovery.numbering import locate_gpus
from support.shared_host import ALICE, BOB, make_demand, run, users, wait_until

SLEEP = ("sleep", "600")
ENDED = "amd-ctk: job worker ends because someone waits for its GPUs"


def preempted(broker) -> list[str]:
    return [line.partition(", process")[0] for line in broker.lines() if line.startswith("preempted")]


@pytest.mark.needs("users' processes")
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

    assert other.line() == "waiting for 1 GPU: 0 free of 1 that fits; GPU 0: 40001's worker since 12:00"
    person(BOB, run("elsewhere", "1")).line()
    assert (preempted(broker), users(host)[0]) == ([], ["40001/worker"])


def test_a_spare_job_that_waits_holds_up_nobody_and_is_served_last(host, broker, person):
    holder = person(ALICE, run("holder", "0"))
    assert holder.line() == "got (0,)"
    spare = person(ALICE, run("spare", "0-1", spare=True))
    assert spare.line() == "waiting for 2 GPUs: 1 free of 2 that fit; GPU 0: holder since 12:00"

    # One asks without waiting, one waits behind the spare job.
    assert person(BOB, run("now", "1", wait=False)).line() == "got (1,)"
    late = person(BOB, run("late", "0"))
    assert late.line() == "waiting for 1 GPU: 0 free of 1 that fits; GPU 0: 40001's holder since 12:00"
    holder.close()

    assert late.line() == "got (0,)"
    assert users(host)[0] == ["40002/late"]


def test_no_limit_counts_spare_jobs(host, broker, person):
    broker.set_terms("fifo", "everyone:gpus=1")
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

    assert kept.startswith("11: worker lasts until someone waits for its GPUs")
    assert inside.startswith("2: a job in a reservation is not a spare job")


@pytest.mark.needs("users' processes")
def test_a_broker_that_starts_again_ends_the_spare_job_for_who_waits(host, broker, person):
    worker = person(ALICE, run("worker", "0", spare=True), command=SLEEP)
    assert worker.line() == "got (0,)"
    broker.kill()
    broker.start()

    bob = person(BOB, run("train", "0"))

    assert worker.line() == ENDED
    assert bob.answer() == "got (0,)"
    assert users(host) == {0: ["40002/train"]}


def claim_with_token_of(host, job):
    """Reserve GPU 0 for a container that has the token of a job, as the runtime does; return its first process."""
    tokens = []
    wait_until(lambda: tokens.append(Processes().variable(job.pid, "AMD_CTK_RESERVATION")) or tokens[-1])
    spec = {"process": {"env": [f"AMD_CTK_RESERVATION={tokens[-1]}"]}}
    started = StartingContainer(container_id="c1", spec=spec, bundle="/b")
    assert claim_nodes(host, started, granted=locate_gpus(host)[:1]).reserve()
    first, state = subprocess.Popen(SLEEP), State(host)
    container = state.read_lease(state.lease_path(("", "c1")))
    state.write_lease(container.replace(init=Processes().find(first.pid)))
    return first


@pytest.fixture
def ending():
    """Return a list of processes that end with the test."""
    processes = []
    yield processes
    for each in processes:
        each.kill()
        each.wait()


@pytest.mark.needs("namespaces", "users' processes")
def test_a_container_of_a_spare_job_is_as_spare_as_the_job(host, broker, person, ending):
    broker.set_terms("fifo", "everyone:gpus=1:time=24h")
    worker = person(ALICE, run("worker", "0", spare=True), command=("sh", "-c", "echo begun; exec sleep 600"))
    assert [worker.line(), worker.line()] == ["got (0,)", "begun"]
    ending.append(claim_with_token_of(host, worker))

    # The container counts against no limit either.
    assert person(ALICE, run("train", "5", wait=False)).line() == "got (5,)"
    worker.close()
    bob = person(BOB, run("next", "0"))
    assert bob.line().startswith("waiting for 1 GPU")

    broker.wait_for_line("preempted: c1: job next of user 40002")


@pytest.mark.needs("users' processes")
def test_a_detached_process_of_a_spare_job_keeps_its_gpu_until_somebody_waits(host, broker, person):
    # While a program becomes another one, it has no variables that could be read.
    detached = "(setsid unshare --user --map-root-user --pid --fork sh -c 'echo $$; sleep 600; :' &) | head -n 1"
    go = f"{host.root}/go"
    worker = person(
        ALICE,
        run("worker", "0", spare=True),
        command=("sh", "-c", f"{detached}; until [ -e {go} ]; do sleep 0.1; done"),
    )
    assert worker.line() == "got (0,)"
    assert worker.line()
    with open(go, "w", encoding="utf-8"):
        pass
    assert worker.ended_by() == 0
    broker.wait_for_line("goes on: 40001/worker")

    bob = person(BOB, run("train", "0"))

    assert bob.answer() == "got (0,)"
    assert preempted(broker) == ["preempted: 40001/worker: job train of user 40002"]
    assert users(host) == {0: ["40002/train"]}


@pytest.mark.needs("users' processes")
def test_a_job_that_ends_before_the_service_looks_again_keeps_its_gpu_for_a_detached_process(
    host, broker, person, monkeypatch
):
    def log_slowly(verdict, sentence, **fields):
        """Return from logging a grant only when its job has ended."""
        write_line(verdict, sentence, **fields)
        if found := re.search("process (\\d+): GPUs", sentence):
            wait_until(lambda: Processes().find(int(found[1])) is None)

    broker.kill()
    monkeypatch.setattr("amd_gpu_sharing.broker.serve.write_line", log_slowly)
    broker.start()
    detached = "(setsid unshare --user --map-root-user --pid --fork sh -c 'echo $$; sleep 600; :' &) | head -n 1"
    worker = person(ALICE, run("worker", "0", spare=True), command=("sh", "-c", detached))
    assert worker.line() == "got (0,)"

    assert worker.ended_by() == 0

    broker.wait_for_line("goes on: 40001/worker")
    assert users(host) == {0: ["40001/worker"]}


@pytest.mark.needs("users' processes")
def test_a_spare_job_that_is_being_ended_counts_against_no_limit(broker, person):
    broker.set_terms("fifo", "everyone:gpus=1")
    stubborn = ("sh", "-c", "trap '' TERM; while :; do sleep 1; done")
    assert person(ALICE, run("worker", "0", spare=True), command=stubborn).line() == "got (0,)"
    bob = person(BOB, run("train", "0"))
    assert bob.line().startswith("waiting for 1 GPU")
    broker.wait_for_line("preempted: ")

    assert person(ALICE, run("own", "5", wait=False)).line() == "got (5,)"
    assert len(preempted(broker)) == 1


def test_a_spare_job_that_waited_before_a_restart_holds_up_nobody_after_it(host, broker, person):
    holder = person(ALICE, run("holder", "0"))
    assert holder.line() == "got (0,)"
    spare = person(ALICE, run("spare", "0-1", spare=True))
    assert spare.line() == "waiting for 2 GPUs: 1 free of 2 that fit; GPU 0: holder since 12:00"
    broker.kill()
    with contextlib.suppress(ProcessLookupError):
        os.kill(spare.pid, signal.SIGSTOP)
    broker.start()

    answer = person(BOB, run("now", "1", wait=False)).line()

    os.kill(spare.pid, signal.SIGCONT)
    assert answer == "got (1,)"


def test_no_job_ends_without_which_it_is_enough():
    idle = {"small": 0b00001, "large": 0b11110}

    assert choose_preempted({"wide": make_demand(4, 0b11111)}, 0, idle) == {"large": "wide"}
