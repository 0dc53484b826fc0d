"""Jobs as they are listed."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pytest

import amd_gpu_sharing.for_tracker
import amd_gpu_sharing.shared_jobs  # noqa: F401
from amd_gpu_sharing.listing import format_json, format_queue, print_queue
from amd_gpu_sharing.tickets import Ticket
from amd_gpu_tracker import RunningJob
from amd_gpu_tracker.book.lease import ProcessId
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.watch.history.ended import Ended, note_ended
from amdgpu_simulator import build_host

NOW = 1_000_000.0
TRAIN = RunningJob(name="train", person=0, gpus=(0, 1), since=NOW - 125, pid=48213)
DEBUG = RunningJob(
    name="debug", person=0, gpus=(4,), since=NOW - 60, containers=("9f2c1d0a3b4c5d6e",), until=NOW + 3600
)


def test_jobs_without_an_end_are_listed_without_that_column():
    assert format_queue([], [TRAIN], NOW) == (
        "Person  Name   GPUs  Numbers  Process  For\n"
        "root    train  2     0,1      48213    2 min 5 s\n"
        "\n"
        "No job waits for GPUs"
    )


def test_a_list_has_the_end_of_a_jobs_time():
    assert format_queue([], [TRAIN, DEBUG], NOW) == (
        "Person  Name   GPUs  Numbers  Process       For        Ends in\n"
        "root    train  2     0,1      48213         2 min 5 s  -\n"
        "root    debug  1     4        9f2c1d0a3b4c  1 min 0 s  1 h 0 min\n"
        "\n"
        "No job waits for GPUs"
    )
    assert [job["until"] for job in json.loads(format_json([], [TRAIN, DEBUG]))["running"]] == [None, NOW + 3600]


def ticket(number, *, latest):
    return Ticket(
        number=number,
        name=f"train-{number}",
        request="free:1",
        count=1,
        among=(0,),
        since=NOW - 5,
        waiter=ProcessId(pid=100 + number, start=1),
        boot_id="b",
        namespace="n",
        latest=latest,
    )


def test_a_list_has_the_latest_start_of_a_job_if_it_is_known():
    tickets = [ticket(1, latest=NOW + 3 * 3600 + 600), ticket(2, latest=None)]

    assert format_queue(tickets, [], NOW) == (
        "Place  Person  Name     GPUs  Request  Waiting for  Process  Starts within\n"
        "1      root    train-1  1     free:1   5 s          101      3 h 10 min\n"
        "2      root    train-2  1     free:1   5 s          102      -"
    )
    assert "Starts" not in format_queue(tickets[1:], [], NOW)
    assert [job["latest"] for job in json.loads(format_json(tickets, []))["jobs"]] == [NOW + 11400, None]


def test_a_list_has_the_part_of_each_gpu_that_a_job_waits_for_or_has():
    waiting = [ticket(1, latest=None).replace(vram_mb=16384), ticket(2, latest=None)]
    running = [TRAIN.replace(vram_mb=8192), DEBUG.replace(until=None)]

    assert format_queue(waiting, running, NOW) == (
        "Person  Name   GPUs          Numbers  Process       For\n"
        "root    train  2 (8192 MiB)  0,1      48213         2 min 5 s\n"
        "root    debug  1             4        9f2c1d0a3b4c  1 min 0 s\n"
        "\n"
        "Place  Person  Name     GPUs           Request  Waiting for  Process\n"
        "1      root    train-1  1 (16384 MiB)  free:1   5 s          101\n"
        "2      root    train-2  1              free:1   5 s          102"
    )
    document = json.loads(format_json(waiting, running))
    assert [job["vram_mb"] for job in (*document["jobs"], *document["running"])] == [16384, 0, 8192, 0]


def test_a_list_has_the_idle_time_of_jobs_and_whether_they_are_preemptible():
    idle = DEBUG.replace(idle_since=NOW - 300, preemptible_at=NOW + 60)
    over = TRAIN.replace(idle_since=NOW - 7260, preemptible_at=NOW - 60)

    assert format_queue([], [over, idle], NOW) == (
        "Person  Name   GPUs  Numbers  Process       For        Ends in    Idle for\n"
        "root    train  2     0,1      48213         2 min 5 s  -          2 h 1 min, preemptible\n"
        "root    debug  1     4        9f2c1d0a3b4c  1 min 0 s  1 h 0 min  5 min 0 s\n"
        "\n"
        "No job waits for GPUs"
    )
    listed = json.loads(format_json([], [TRAIN, over]))["running"]
    assert [(job["idle_since"], job["preemptible_at"]) for job in listed] == [(None, None), (NOW - 7260, NOW - 60)]


def test_a_reservation_in_which_nothing_runs_has_no_process():
    assert format_queue([], [DEBUG.replace(containers=(), until=None)], NOW).splitlines()[1].split()[4] == "-"


def test_the_container_that_runs_in_a_job_is_named_for_machines_with_the_process():
    listed = json.loads(format_json([], [TRAIN, DEBUG]))["running"]

    assert [(job["pid"], job["containers"]) for job in listed] == [(48213, []), (None, ["9f2c1d0a3b4c5d6e"])]


@pytest.fixture
def open_directory():
    """Return a directory that every user may enter."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
@pytest.mark.parametrize(
    ("uid", "told"),
    [
        (0, "The restart of this machine ended the reservation debug of 40001\n"),
        (40001, "The restart of this machine ended the reservation debug\n"),
        (40002, ""),
    ],
)
def test_the_owner_of_a_reservation_reads_that_a_restart_ended_it(open_directory, capfd, uid, told):
    host = build_host(open_directory / "host", "mi210-4")
    state = State(host)
    state.prepare()
    note_ended(state, [Ended(job="40001/debug", person=40001, until=time.time() + 3600)])

    if not (pid := os.fork()):
        os.setresuid(uid, uid, uid)
        print_queue(host)
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(pid, 0)

    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("No job waits for GPUs\n", told)
