"""Processes that have a lease because the lease names them, or because they were started by one that it names."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from amd_gpu_tracker.life.status import read_status_with_leases
from amd_gpu_tracker.usage.holders import find_holders

USER = os.geteuid()
OTHER_USER = USER + 1


@pytest.fixture
def holders(machine):
    """Return a function that gives the leases of processes as root sees them."""

    def find(*pids):
        leases = read_status_with_leases(machine.state, machine.processes)[1]
        return find_holders(leases, machine.processes, pids)

    return find


def test_a_job_and_what_it_has_started_have_its_lease(machine, holders):
    job = machine.start_process()
    machine.claim("train", [2], creator=job, root="")
    worker = machine.start_process(parent=machine.start_process(parent=job))
    other = machine.start_process()

    assert holders(job, worker, other) == {job: ("train", None), worker: ("train", None)}


def test_the_nearest_lease_counts(machine, holders):
    job = machine.start_process()
    machine.claim("train", [2], creator=job, root="")
    inner = machine.start_process(parent=job)
    machine.claim("one-step", [1], creator=inner, root="")
    worker = machine.start_process(parent=inner)

    assert holders(worker) == {worker: ("one-step", None)}


def test_another_process_with_the_id_of_a_job_has_no_lease_of_it(machine, holders):
    job = machine.start_process(seconds_ago=60)
    machine.claim("train", [2], creator=job, root="")
    machine.start_process(job)

    assert holders(job) == {}


def test_what_makes_containers_makes_others_too(machine, holders):
    engine = machine.start_process()
    machine.claim("web", [2], creator=engine, bundle="/run/bundle")
    untracked = machine.start_process(parent=engine)

    assert holders(untracked) == {}


def test_the_init_of_a_container_counts_for_it(machine, holders):
    creator, init = machine.start_process(), machine.start_process()
    machine.claim("web", [2], creator=creator, bundle="/run/bundle", init=machine.processes.find(init))
    worker = machine.start_process(parent=init)

    assert holders(worker, creator) == {worker: ("web", None)}


def test_a_user_cannot_take_processes_of_others_into_a_lease(machine, holders):
    user = machine.as_rootless_user()
    job = user.start_process()
    user.claim("train", [1], creator=job, root="")
    path = Path(user.state.lease_path(("", "train")))
    theirs = machine.start_process(uid=OTHER_USER)
    lease = json.loads(path.read_bytes())

    assert holders(job) == {job: ("train", USER)}

    # The creator proves nothing where the lease has an init, and the other way round.
    init = machine.processes.find(theirs).as_dict()
    path.write_text(json.dumps({**lease, "init": init, "cgroup": ""}))

    assert holders(theirs) == {}


def test_deep_trees_are_followed_so_far(machine, holders):
    pid = job = machine.start_process()
    machine.claim("train", [2], creator=job, root="")
    for _ in range(64):
        pid = machine.start_process(parent=pid)

    assert holders(pid) == {}
