"""The cgroups of containers, as engines and cgroup drivers name them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amd_gpu_tracker.leases.containers import ContainerOfProcess, find_container, find_holders, parse_cgroup
from amd_gpu_tracker.leases.status import read_status_with_leases

ID = "36b012bb34c96149a6ef5b28623e6e75cf9f71eb2b824b2c8f44e0449c7a1aa8"
INNER = "90cb29e11e83aa3ae497c68c90e1f0894b85262188c1ef9c7284457a9bc35ffd"
PATHS = {
    f"0::/system.slice/docker-{ID}.scope": "docker",
    f"0::/docker/{ID}": "docker",
    f"12:devices:/docker/{ID}\n1:name=systemd:/docker/{ID}\n0::/": "docker",
    f"0::/../../system.slice/docker-{ID}.scope": "docker",
    f"0::/machine.slice/libpod-{ID}.scope/container": "podman",
    f"0::/kubepods.slice/kubepods-pod1_2.slice/cri-containerd-{ID}.scope": "containerd",
    f"0::/kubepods/burstable/pod7a/{ID}": "kubernetes",
    f"0::/kubepods.slice/kubepods-pod7a.slice/crio-{ID}.scope": "cri-o",
    f"0::/system.slice/docker-{ID}.scope/docker/{INNER}": "docker",
    f"0::/elsewhere/{ID}": "",
}  # fmt: skip


@pytest.mark.parametrize("content", PATHS)
def test_an_engine_names_the_cgroup_after_the_container(content):
    assert parse_cgroup(f"{content}\n", ()) == ContainerOfProcess(container_id=ID, engine=PATHS[content])


@pytest.mark.parametrize(
    ("path", "container_id", "engine"),
    [
        ("/system.slice/slurmstepd.scope/job_7/step_0/user/task_0", "job-7", "slurm"),
        ("/slurm/uid_1000/job_81/step_batch", "job-81", "slurm"),
        ("/lxc.payload.build/init.scope", "build", "lxc"),
        ("/machine.slice/machine-trixie.scope/payload", "trixie", "nspawn"),
    ],
)
def test_jobs_and_machines_have_names(path, container_id, engine):
    assert parse_cgroup(f"0::{path}\n", ()) == ContainerOfProcess(container_id=container_id, engine=engine)


@pytest.mark.parametrize(
    "path",
    ["/", "/init.scope", "/user.slice/user-0.slice/session-1.scope", "/system.slice/docker.service", f"/x{ID}"],
)
def test_other_processes_are_in_no_container(path):
    assert parse_cgroup(f"0::{path}\n", ()) is None


def test_the_monitor_of_podman_is_not_in_its_container():
    assert parse_cgroup(f"0::/machine.slice/libpod-conmon-{ID}.scope\n", ()) is None


def test_a_container_that_is_tracked_is_found_by_any_id():
    assert parse_cgroup("0::/nightly-job\n", {"nightly-job"}) == ContainerOfProcess(
        container_id="nightly-job", engine=""
    )
    assert parse_cgroup("0::/a.slice/docker-my-job.scope\n", {"my-job"}) == ContainerOfProcess(
        container_id="my-job", engine="docker"
    )
    assert parse_cgroup(f"0::/docker/{ID}/docker/{INNER}\n", {INNER}) == ContainerOfProcess(
        container_id=INNER, engine="docker"
    )


@pytest.mark.parametrize(
    ("path", "container_id", "engine", "user"),
    [
        (f"user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope", ID, "podman", 1000),
        (f"user.slice/user-1000.slice/user@1000.service/a.slice/docker-{ID}.scope", ID, "docker", 1000),
        ("user.slice/user-1000.slice/user@1000.service/user@7.service/nightly-job", "nightly-job", "", 1000),
        ("user.slice/user-1000.slice/user@1000.service/lxc.payload.web", "web", "lxc", 1000),
        ("user.slice/user-1000.slice/user@1000.service/slurmstepd.scope/job_7", "job-7", "slurm", 1000),
        (f"system.slice/docker-{ID}.scope/user.slice/user-7.slice/user@7.service", ID, "docker", None),
    ],
)
def test_below_the_service_of_a_user_the_user_chooses_names(path, container_id, engine, user):
    assert parse_cgroup(f"0::/{path}\n", {"nightly-job"}) == ContainerOfProcess(
        container_id=container_id, engine=engine, user=user
    )


def test_an_id_that_is_no_engines_own_is_bounded_and_printable():
    assert parse_cgroup(f"0::/lxc.payload.{chr(27) * 243}\n", ()) == ContainerOfProcess(
        container_id="?" * 128, engine="lxc"
    )


def test_a_process_that_is_gone_is_in_no_container(tmp_path):
    assert find_container(str(tmp_path), 7, ()) is None


@given(st.text(max_size=200))
def test_any_content_is_read(content):
    parse_cgroup(content, {"a"})


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


def test_an_engine_of_tracked_containers_may_have_others(machine, holders):
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
