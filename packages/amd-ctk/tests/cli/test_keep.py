"""keep and end, and earlier names of end, without a service: root does it itself, others are told what is missing."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from amd_gpu_sharing.broker.queue.grants import Grants
from amd_gpu_sharing.broker.requests.demand import resolve_demand
from amd_gpu_sharing.broker.requests.peer import Peer
from amd_gpu_sharing.broker.requests.people import Permission, Terms
from amd_gpu_sharing.broker.requests.protocol import RESERVE, Request
from amd_gpu_sharing.node_access.users import NodeUsers
from amd_gpu_sharing.requests import change
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.claims.claim import Book
from amd_gpu_tracker.errors import ServiceMissing
from amd_gpu_tracker.face.tracker import Tracker
from amd_gpu_tracker.leases.processes import Processes
from amdgpu_discovery.host import Host
from amdgpu_simulator import build_host
from support.shared_host import put_ticket

ALICE = 40001
STILL_WORKS = "still works; 'amd-ctk end debug' ends reservations and jobs, running or waiting"


@pytest.fixture
def served(tmp_path: Path) -> Host:
    """Return a host on which alice has reserved GPU 0 for an hour."""
    if os.geteuid():
        pytest.skip("needs root, who does it without the service")
    host = build_host(tmp_path / "host", "mi210-4")
    Tracker(host).enable()
    book, everyone = Book(State(host), Processes()), Permission(who="everyone")
    peer = Peer(uid=ALICE, gids=(), process=Processes().myself())
    request = Request(verb=RESERVE, name="debug", gpus="0")
    demand = resolve_demand(book, Terms(permissions=(everyone,)), everyone, peer, request)
    Grants(book, NodeUsers(host)).give(demand.replace(reserved_seconds=3600), demand.fitting)
    return host


def test_root_keeps_a_reservation_for_longer(served: Host, amd_ctk) -> None:
    answer = amd_ctk("keep", "debug", "2h", f"--user={ALICE}")

    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "debug ends in 2 h 0 min\n", "")
    assert "2 h 0 min" in amd_ctk("queue", "list").stdout or "1 h 59 min" in amd_ctk("queue", "list").stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["other", "2h"], 11, "there is no reservation or job other (see 'amd-ctk queue')"),
        (["debug", "31d"], 2, "31d is longer than 30 days (write 30m, 4h or 2d)"),
        (["debug", "soon"], 2, "'soon' is not a time to wait (write 30s, 10m or 2h)"),
        (
            ["../x", "2h"],
            2,
            "'../x' is not a name for a job (use up to 64 letters, digits, '_', '.' and '-', and begin",
        ),
    ],
)
def test_a_reservation_that_cannot_be_kept_is_named(served: Host, amd_ctk, words, code, said) -> None:
    answer = amd_ctk("keep", *words)

    assert (answer.returncode, answer.stdout) == (code, "")
    assert answer.stderr.splitlines()[-1].startswith(said)


@pytest.mark.parametrize(
    ("words", "printed", "said"),
    [
        (["end"], "", ["Ending debug"]),
        (["queue", "end"], "", ["Ending debug", f"'amd-ctk queue end' {STILL_WORKS}"]),
        (["release"], "The reservation debug has ended\n", [f"'amd-ctk release' {STILL_WORKS}"]),
    ],
)
def test_root_ends_a_reservation(served: Host, amd_ctk, words, printed, said) -> None:
    answer = amd_ctk(*words, "debug", f"--user={ALICE}")

    assert (answer.returncode, answer.stdout, answer.stderr.splitlines()) == (0, printed, said)
    assert "debug" not in amd_ctk("queue", "list").stdout
    assert amd_ctk(*words, "debug").returncode == 11


def test_end_removes_a_waiting_job_from_the_queue(served: Host, amd_ctk) -> None:
    put_ticket(served, "train", "free:1", (0, 1))

    answer = amd_ctk("end", "train")

    assert (answer.returncode, answer.stdout) == (0, "")
    assert answer.stderr == "train was removed from the queue\n"
    assert "train" not in amd_ctk("queue").stdout
    assert "debug" in amd_ctk("queue").stdout


def test_a_name_that_neither_runs_nor_waits_cannot_be_ended(served: Host, amd_ctk) -> None:
    answer = amd_ctk("end", "nightly")

    assert (answer.returncode, answer.stdout) == (11, "")


def test_root_ends_a_job(served: Host, amd_ctk) -> None:
    train = subprocess.Popen(["sleep", "600"])
    Tracker(served).reserve("1", name="train", pid=train.pid)

    released, ended = amd_ctk("release", "train"), amd_ctk("end", "train")

    assert released.stderr.splitlines() == ["the job train is still running (stop it first)"]
    assert (ended.returncode, train.wait()) == (0, -signal.SIGTERM)
    # Nothing else was ended.
    assert "train" not in amd_ctk("queue", "list").stdout
    assert "debug" in amd_ctk("queue", "list").stdout


def test_root_ends_what_runs_with_the_gpus_of_a_reservation(served: Host, amd_ctk) -> None:
    train = subprocess.Popen(["sleep", "600"], user=ALICE)
    grants = Grants(Book(State(served), Processes()), NodeUsers(served))
    creator = Processes().find(train.pid)
    assert creator is not None
    grants.give_inside(f"{ALICE}/train", f"{ALICE}/debug", creator, person=ALICE)

    assert amd_ctk("end", "debug").returncode == 0

    assert train.wait() == -signal.SIGTERM
    assert amd_ctk("queue", "list").stdout == "No job waits for GPUs\n"


@pytest.mark.parametrize("verb", ["keep", "end", "release"])
def test_a_user_without_root_needs_the_service(served: Host, monkeypatch, verb) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: ALICE)

    with pytest.raises(ServiceMissing):
        change(served, verb, "debug", None)
