"""Commands of a process whose device cgroup hides GPUs: what it may use is shown, nothing is written for the host."""

from __future__ import annotations

import json
import os

import pytest

from amd_gpu_tracker import Tracker
from amdgpu_simulator import hide_gpus

DASHES = "-" * 75
HINT = " (run it outside the job, container or unit that limits the process)\n"


@pytest.fixture
def job(host):
    """Build a host with four GPUs of which a process may use the last two."""
    built = host()
    hide_gpus(built, (0, 1))
    return built


def files_below(root, *directories):
    walks = (os.walk(root + directory) for directory in directories)
    return sorted(os.path.join(path, name) for walk in walks for path, _, names in walk for name in names)


def test_gpus_are_listed_with_the_hosts_numbers_and_it_is_said_what_is_hidden(job, limited_amd_ctk):
    answer = limited_amd_ctk("gpu", "list")

    assert answer.stdout == (
        "Found 2 AMD GPU devices\n"
        f"{DASHES}\n"
        "GPU Id    UUID                     DRM Devices                             \n"
        f"{DASHES}\n"
        "2         0x6E32F10EFC982B4C       /dev/dri/renderD129                     \n"
        "3         0x12FE4F7FDAF06B9        /dev/dri/renderD128                     \n"
    )
    assert answer.stderr == "GPUs 0, 1 are hidden from this process by its device cgroup\n"
    assert answer.returncode == 0


@pytest.mark.parametrize("tracked", [False, True])
def test_the_states_of_gpus_end_with_what_is_hidden(job, limited_amd_ctk, tracked):
    if tracked:
        Tracker(job).enable()

    answer = limited_amd_ctk("status")

    assert [line.split()[:3] for line in answer.stdout.splitlines()[3:5]] == [
        ["2", "MI210", "free"],
        ["3", "MI210", "free"],
    ]
    assert answer.stdout.splitlines()[5] == "GPUs 0, 1 are hidden from this process by its device cgroup"


def test_json_has_the_numbers_of_hidden_gpus(job, limited_amd_ctk):
    answer = json.loads(limited_amd_ctk("gpu", "list", "--json").stdout)

    assert [gpu["number"] for gpu in answer["gpus"]] == [2, 3]
    assert (answer["hidden"], answer["unnumbered"]) == ([0, 1], [])


def test_cdi_devices_are_listed_with_the_hosts_numbers(job, limited_amd_ctk):
    assert limited_amd_ctk("cdi", "list").stdout == (
        "Found 2 AMD GPU devices\n"
        "amd.com/gpu=all\n"
        "amd.com/gpu=2\n"
        "  /dev/dri/card2\n"
        "  /dev/dri/renderD129\n"
        "amd.com/gpu=3\n"
        "  /dev/dri/card1\n"
        "  /dev/dri/renderD128\n"
    )


@pytest.mark.parametrize(("engine", "is_said"), [("docker", True), ("podman", False)])
def test_explain_says_that_the_daemon_of_docker_may_use_them(job, limited_amd_ctk, engine, is_said):
    answer = limited_amd_ctk("explain", engine, "run", "--device=/dev/kfd", "--device=/dev/dri/renderD129", "rocm")

    note = "note: Docker's daemon starts the container, and may use GPUs that are hidden from this process"
    assert (note in answer.stdout.splitlines()) is is_said


def test_where_every_gpu_is_hidden_that_is_the_reason(job, limited_amd_ctk):
    hide_gpus(job, (0, 1, 2, 3))

    answer = limited_amd_ctk("gpu", "list")

    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == (
        f"failed to list AMD devices: 4 of 4 GPUs are hidden from this process by its device cgroup{HINT}"
    )


@pytest.mark.parametrize(
    ("words", "before"),
    [
        (("cdi", "generate"), "failed to generate CDI spec: getting GPUs: "),
        (("cdi", "generate", "--output=-"), "failed to generate CDI spec: getting GPUs: "),
        (("cdi", "generate", "--gpus=2"), "failed to generate CDI spec: getting GPUs: "),
        (("gpu-tracker", "enable"), ""),
        (("swarm", "setup", "--no-validate"), ""),
    ],
)
def test_files_for_the_whole_host_are_not_written_from_a_process_that_sees_some_gpus(
    job, limited_amd_ctk, words, before
):
    files = files_below(job.root, "/etc", "/var")

    answer = limited_amd_ctk(*words)

    assert answer.stderr == f"{before}2 of 4 GPUs are hidden from this process by its device cgroup{HINT}"
    assert (answer.stdout, answer.returncode) == ("", 1)
    assert [path for path in files_below(job.root, "/etc", "/var") if path not in files] == []


def test_a_spec_of_the_whole_host_stays_as_it_is_when_it_is_refreshed(job, amd_ctk, limited_amd_ctk):
    if os.geteuid() != 0:
        pytest.skip("only root may read all GPUs of this host")
    assert amd_ctk("cdi", "generate").returncode == 0
    path = f"{job.root}/etc/cdi/amd.json"
    with open(path, "rb") as file:
        before = file.read()

    answer = limited_amd_ctk("cdi", "refresh")

    assert answer.stderr == (
        "failed to generate CDI spec: getting GPUs: 2 of 4 GPUs are hidden from this process by its device cgroup"
        f"{HINT}"
    )
    assert answer.returncode == 1
    with open(path, "rb") as file:
        assert file.read() == before


def test_the_tracker_goes_on_with_what_was_set_for_the_whole_host(job, amd_ctk, limited_amd_ctk):
    if os.geteuid() != 0:
        pytest.skip("only root may read all GPUs of this host")
    assert amd_ctk("gpu-tracker", "enable").returncode == 0
    assert limited_amd_ctk("gpu-tracker", "2", "exclusive").returncode == 0

    status = json.loads(limited_amd_ctk("gpu-tracker", "status", "--json").stdout)
    assert [(gpu["number"], gpu["accessibility"]) for gpu in status["gpus"]] == [(2, "exclusive"), (3, "shared")]

    refused = limited_amd_ctk("gpu-tracker", "reset")
    assert refused.stderr == f"2 of 4 GPUs are hidden from this process by its device cgroup{HINT}"
    assert refused.returncode == 1

    status = json.loads(amd_ctk("gpu-tracker", "status", "--json").stdout)
    assert [gpu["accessibility"] for gpu in status["gpus"]] == ["shared", "shared", "exclusive", "shared"]
