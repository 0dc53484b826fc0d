"""What the commands of a shared host know about the jobs of all users."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

import amd_gpu_sharing
import amd_gpu_tracker
import amdgpu_discovery
from amd_gpu_sharing.requests import change
from amd_gpu_sharing.shared_jobs import SharedJobs
from amd_gpu_tracker.book.lease import BY_API, BY_ENVIRONMENT
from amd_gpu_tracker.errors import ServiceMissing

PACKAGES = (amd_gpu_sharing, amd_gpu_tracker, amdgpu_discovery)


def put_lease(machine, name, way=BY_API, *, gpu=0, root="", **fields):
    machine.claim(name, [gpu], creator=machine.start_process(), root=root, ways=(way,))
    lease = machine.state.read_lease(machine.state.lease_path((root, name)))
    machine.state.write_lease(lease.replace(**fields))


def test_jobs_and_reservations_have_owners_and_containers_beside_them_have_none(machine):
    put_lease(machine, "40001/train", person=40001, token_digest="1")
    put_lease(machine, "by-sudo", person=40002)
    put_lease(machine, "of-a-program")
    put_lease(machine, "c1", BY_ENVIRONMENT)
    # In a living job, whose reservation was released.
    put_lease(machine, "c2", BY_ENVIRONMENT, person=40001, reservation="40001/released", reservation_digest="1")

    assert SharedJobs(machine.tracker).owners() == [("train", 40001), ("by-sudo", 40002), ("of-a-program", None)]


def test_a_container_whose_job_has_ended_stands_for_the_job(machine):
    for container in ("c1", "c2"):
        put_lease(machine, container, BY_ENVIRONMENT, person=40001, reservation="40001/train", reservation_digest="1")

    assert SharedJobs(machine.tracker).owners() == [("train", 40001)]


@pytest.mark.parametrize("days", [10, -10])
def test_setting_the_clock_does_not_change_how_long_a_job_has_gpus(machine, monkeypatch, days):
    put_lease(machine, "40001/train", person=40001, token_digest="1")
    wall = time.time

    monkeypatch.setattr(time, "time", lambda: wall() + days * 86400)

    (job,) = machine.tracker.jobs()
    assert 0 <= time.time() - job.since < 3600


def test_containers_of_one_id_below_two_roots_are_of_their_own_jobs(machine):
    for gpu, (root, uid, job) in enumerate([("", 40001, "train"), ("/run/other", 40002, "eval")]):
        fields = {"person": uid, "reservation": f"{uid}/{job}", "reservation_digest": str(uid)}
        put_lease(machine, "web", BY_ENVIRONMENT, gpu=gpu, root=root, **fields)

    assert SharedJobs(machine.tracker).owners() == [("train", 40001), ("eval", 40002)]
    jobs = [(job.name, job.person, job.gpus, job.containers) for job in machine.tracker.jobs()]
    assert sorted(jobs) == [("eval", 40002, (1,), ("web",)), ("train", 40001, (0,), ("web",))]


def test_a_container_with_the_id_of_a_job_does_not_hide_the_process_of_the_job(machine):
    put_lease(machine, "web", token_digest="1")
    put_lease(machine, "web", BY_ENVIRONMENT, gpu=1, root="/run/other")

    (job,) = machine.tracker.jobs()

    assert (job.name, job.gpus, job.pid is not None, job.containers) == ("web", (0,), True, ())


def test_the_remains_of_an_ended_job_are_no_job(machine):
    put_lease(machine, "40001/train.ending", person=40001, reservation="40001/train")

    assert SharedJobs(machine.tracker).owners() == []


def test_a_user_sees_the_jobs_of_all_users(machine):
    put_lease(machine, "40001/train", person=40001)
    user = machine.as_rootless_user()

    assert SharedJobs(user.tracker).owners() == [("train", 40001)]


def test_a_list_of_jobs_loads_no_sockets_where_no_service_gives_out_gpus(machine):
    packages = {os.path.dirname(os.path.dirname(package.__file__)) for package in PACKAGES}
    code = (
        f"import sys; sys.path[:0] = {sorted(packages)!r}; from amd_gpu_tracker import Tracker;"
        " from amd_gpu_sharing.shared_jobs import SharedJobs;"
        f" from amdgpu_discovery.host import Host; tracker = Tracker(Host({machine.state.host.root!r}));"
        " print(tracker.waiting(), tracker.jobs(), SharedJobs(tracker).ended_by_restart());"
        " print([name for name in ('contextlib', 'enum', 'functools', 'socket') if name in sys.modules])"
    )

    answer = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)

    assert answer.stdout == "[] [] []\n[]\n"


@pytest.mark.needs("root")
def test_root_without_the_service_changes_nothing_by_a_verb_that_only_the_service_knows(machine):
    put_lease(machine, "train")

    with pytest.raises(ServiceMissing):
        change(machine.host, "first", "train", None)

    assert [job.name for job in machine.tracker.jobs()] == ["train"]
