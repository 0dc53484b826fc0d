"""The cgroups of containers, as engines and cgroup drivers name them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amd_gpu_tracker.usage.containers import ContainerOfProcess, find_container, parse_cgroup

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
