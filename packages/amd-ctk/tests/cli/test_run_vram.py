"""amd-ctk run --vram: a container gets the limit, a program is told of it, and what cannot be held is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from amd_ctk.job.memory import find_job_limit
from amd_ctk.job.start import PlannedJob
from amd_gpu_tracker import Tracker
from support.memory_limits import shrink

LET_START = "('sudo amd-ctk config set vram-limit asked' lets such containers start without a limit)"
NO_CONTAINER = "the command is not 'docker run' or 'podman run', and only containers have limits"
OURS = {"Runtimes": {"amd": {"path": "/usr/bin/amd-container-runtime"}}, "DefaultRuntime": "runc"}
WITH_CDI = {"Runtimes": {"runc": {"path": "runc"}}, "DefaultRuntime": "runc", "CDISpecDirs": ["/etc/cdi"]}
PROGRAM = ("sh", "-c", "env | grep ^AMD_VRAM | sort")


def give_cgroup(host, controllers="cpuset cpu io memory pids dmem"):
    """Give a simulated host a kernel with these controllers."""
    path = Path(host.path("/sys/fs/cgroup/cgroup.controllers"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{controllers}\n")


@pytest.fixture
def engines(tracked, tmp_path):
    """Return a function that makes an engine which says this of itself, and prints the words of any other call."""
    give_cgroup(tracked)
    programs = tmp_path / "bin"
    programs.mkdir()

    def make(name, about=OURS):
        script = f'#!/bin/sh\n[ "$1" = info ] && cat <<\'END\' && exit\n{json.dumps(about)}\nEND\necho "$@"\n'
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
        return f"{programs}:{os.environ['PATH']}"

    return make


def in_use(host):
    return [gpu.number for gpu in Tracker(host).status().gpus if gpu.containers]


def test_a_container_gets_the_limit_in_front_of_the_users_own_options(engines, amd_ctk):
    path = engines("docker")

    answer = amd_ctk("run", "--gpus=0", "--vram=8GiB", "--", "docker", "run", "--rm", "image", PATH=path)

    assert (answer.returncode, answer.stderr) == (0, "GPU 0\n")
    assert answer.stdout == (
        "run -e AMD_VISIBLE_DEVICES -e AMD_CTK_RESERVATION -e AMD_VRAM=8GiB --runtime=amd --rm image\n"
    )


ROOTLESS = "--vram=8GiB is not enforced: the container is rootless, and root owns the cgroups that have limits\nGPU 0\n"


@pytest.mark.parametrize("default", ["runc", "amd"])
def test_docker_that_says_it_is_rootless_enforces_no_limit(engines, amd_ctk, default):
    path = engines("docker", {**OURS, "DefaultRuntime": default, "SecurityOptions": ["name=rootless"]})

    answer = amd_ctk("run", "--gpus=0", "--vram=8GiB", "--", "docker", "run", "image", PATH=path)

    assert (answer.returncode, answer.stderr) == (0, ROOTLESS)


def test_docker_that_is_not_asked_is_rootless_by_its_address(engines, amd_ctk):
    path = engines("docker")
    words = ("run", "--gpus=0", "--vram=8GiB", "--", "docker", "run", "--runtime=amd", "image")

    answer = amd_ctk(*words, PATH=path, DOCKER_HOST="unix:///run/user/1000/docker.sock")

    assert (answer.returncode, answer.stderr) == (0, ROOTLESS)


def test_where_limits_are_required_rootless_docker_is_refused(engines, amd_ctk):
    path = engines("docker", {**OURS, "SecurityOptions": ["name=rootless"]})
    amd_ctk("config", "set", "vram-limit", "required")

    answer = amd_ctk("run", "--vram=8GiB", "--", "docker", "run", "image", PATH=path)

    assert answer.stderr == (
        "--vram=8GiB cannot be enforced: the container is rootless, and root owns the cgroups that have limits"
        f" {LET_START}\n"
    )


def test_where_the_kernel_has_no_limits_a_container_starts_and_one_line_says_so(tracked, engines, amd_ctk):
    path = engines("docker")
    give_cgroup(tracked, "cpu memory pids")

    answer = amd_ctk("run", "--gpus=0", "--vram=8GiB", "--", "docker", "run", "image", PATH=path)

    assert answer.stderr == (
        "--vram=8GiB is not enforced: the kernel has no dmem cgroup"
        " (it needs Linux 6.14 or later with CONFIG_CGROUP_DMEM)\nGPU 0\n"
    )
    assert "-e AMD_VRAM=8GiB --runtime=amd image" in answer.stdout


def test_a_program_is_told_its_limit_and_one_line_says_that_nothing_enforces_it(tracked, amd_ctk):
    answer = amd_ctk("run", "--gpus=0", "--vram=8GiB", "--", *PROGRAM)

    assert answer.stderr == f"--vram=8GiB is not enforced: {NO_CONTAINER}\nGPU 0\n"
    assert answer.stdout.splitlines() == [
        *("AMD_VRAM=8GiB", "AMD_VRAM_FRACTION=0.1250", "AMD_VRAM_LIMIT_MB=8192", "AMD_VRAM_TOTAL_MB=65520"),
    ]


def test_a_program_is_told_the_administrators_maximum_where_that_is_less(tracked, amd_ctk):
    amd_ctk("config", "set", "vram-maximum", "4096")

    answer = amd_ctk("run", "--vram=8GiB", "--", *PROGRAM)

    assert "AMD_VRAM_LIMIT_MB=4096\n" in answer.stdout


def test_where_limits_are_required_a_program_with_one_is_refused(tracked, amd_ctk, tmp_path):
    amd_ctk("config", "set", "vram-limit", "required")

    answer = amd_ctk("run", "--vram=8GiB", "--", "touch", tmp_path / "ran")

    assert (answer.returncode, answer.stderr) == (
        4,
        f"--vram=8GiB cannot be enforced: {NO_CONTAINER} {LET_START}\n",
    )
    assert not (tmp_path / "ran").exists()
    assert in_use(tracked) == []


def test_where_limits_are_required_a_container_with_gpus_by_cdi_is_refused(engines, amd_ctk):
    path = engines("docker", WITH_CDI)
    amd_ctk("cdi", "generate")
    amd_ctk("config", "set", "vram-limit", "required")

    answer = amd_ctk("run", "--vram=8GiB", "--", "docker", "run", "image", PATH=path)

    assert (answer.returncode, answer.stdout) == (4, "")
    assert answer.stderr == (
        f"--vram=8GiB cannot be enforced: the engine has no AMD runtime, and CDI sets no limit {LET_START}\n"
    )


def test_a_limit_that_is_switched_off_is_ignored_and_one_line_says_so(tracked, amd_ctk):
    amd_ctk("config", "set", "vram-limit", "off")

    answer = amd_ctk("run", "--gpus=0", "--vram=8GiB", "--", "sh", "-c", "env | grep -c ^AMD_VRAM")

    assert answer.stderr == '--vram=8GiB is ignored because vram-limit is "off"\nGPU 0\n'
    assert answer.stdout == "0\n"


@pytest.mark.parametrize(
    ("amount", "why", "more"),
    [
        ("8", "is not an amount of memory with its unit, MiB or GiB", ()),
        ("-1GiB", "is not an amount of memory with its unit, MiB or GiB", ()),
        ("0GiB", "leaves no memory", ()),
        ("65521MiB", "is more than GPU 3 has, which is 65520 MiB", ()),
        ("8GB", "is not an amount of memory with its unit, MiB or GiB", ("--detach",)),
        ("0MiB", "leaves no memory", ("--each=lines", "--output=logs")),
    ],
)
def test_what_no_gpu_can_limit_is_refused_before_anything_is_reserved(tracked, amd_ctk, tmp_path, amount, why, more):
    answer = amd_ctk("run", *more, f"--vram={amount}", "--", "touch", tmp_path / "ran")

    assert (answer.returncode, answer.stdout) == (4, "")
    assert answer.stderr == f"--vram={amount} {why} (as in --vram=8GiB)\n"
    assert not (tmp_path / "ran").exists()
    assert in_use(tracked) == []


def test_a_job_whose_gpu_has_less_memory_than_another_is_refused_and_keeps_no_gpu(tracked, amd_ctk, tmp_path):
    shrink(tracked, 1)

    answer = amd_ctk("run", "--gpus=1", "--vram=8GiB", "--", "touch", tmp_path / "ran")

    assert answer.returncode == 4
    assert answer.stderr.splitlines()[-1] == (
        "8192 MiB is more than GPU 1 has, which is 4096 MiB"
        " (ask for less, or for GPUs that have it, as in auto:1+vram:8192MiB)"
    )
    assert not (tmp_path / "ran").exists()
    assert in_use(tracked) == []


def test_a_program_gets_a_gpu_that_has_the_administrators_maximum_but_not_what_it_asks_for(tracked, amd_ctk):
    shrink(tracked, 0)
    amd_ctk("config", "set", "vram-maximum", "4096")

    answer = amd_ctk("run", "--gpus=0", "--vram=8GiB", "--", *PROGRAM)

    assert (answer.returncode, answer.stderr) == (0, f"--vram=8GiB is not enforced: {NO_CONTAINER}\nGPU 0\n")
    assert answer.stdout.splitlines() == [
        *("AMD_VRAM=4096MiB", "AMD_VRAM_FRACTION=1.0000", "AMD_VRAM_LIMIT_MB=4096", "AMD_VRAM_TOTAL_MB=4096"),
    ]


def test_a_container_is_limited_to_the_administrators_maximum_which_its_gpu_has(tracked, engines, amd_ctk):
    path = engines("docker")
    shrink(tracked, 0)
    amd_ctk("config", "set", "vram-maximum", "4096")

    answer = amd_ctk("run", "--gpus=0", "--vram=8GiB", "--", "docker", "run", "image", PATH=path)

    assert (answer.returncode, answer.stderr) == (0, "GPU 0\n")
    assert "-e AMD_VRAM=4096MiB --runtime=amd image" in answer.stdout


def test_where_limits_are_off_a_job_gets_a_gpu_with_less_than_it_asks_for(tracked, amd_ctk):
    shrink(tracked, 0)
    amd_ctk("config", "set", "vram-limit", "off")

    answer = amd_ctk("run", "--gpus=0", "--vram=8GiB", "--", "true")

    assert answer.stderr == '--vram=8GiB is ignored because vram-limit is "off"\nGPU 0\n'
    assert answer.returncode == 0


def test_explain_shows_the_variables_of_a_program_and_that_nothing_enforces_its_limit(tracked, amd_ctk):
    answer = amd_ctk("explain", "--", "amd-ctk", "run", "--gpus=0", "--vram=8GiB", "--", "true")

    assert answer.stderr == f"--vram=8GiB is not enforced: {NO_CONTAINER}\n"
    assert "AMD_VRAM_LIMIT_MB=8192\n" in answer.stdout


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("podman run image", "the container is rootless, and root owns the cgroups that have limits"),
        ("sudo -E podman run image", ""),
    ],
)
def test_only_the_container_of_a_users_podman_is_rootless(tracked, monkeypatch, capfd, command, said):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    give_cgroup(tracked)
    job = PlannedJob(
        argv=command.split(), name="job", request="0", wait=None, reservation="", is_spare=False, is_unit=False
    )

    limit = find_job_limit(job.replace(vram="8GiB"), tracked, None)

    assert limit.words == ("-e", "AMD_VRAM=8GiB")
    assert capfd.readouterr().err == (f"--vram=8GiB is not enforced: {said}\n" if said else "")
