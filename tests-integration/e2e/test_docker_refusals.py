"""A request that cannot be met is refused in Docker's own message, and nothing is left of it."""

from __future__ import annotations

import pytest

from amdgpu_simulator import build_host
from support.docker import IMAGE

pytestmark = [pytest.mark.e2e, pytest.mark.docker]


def refuse(docker, request_, *options):
    asking = ("--rm", "--runtime=amd", f"--env=AMD_VISIBLE_DEVICES={request_}")
    ended = docker("run", *asking, *options, IMAGE, "true", check=False)
    # Before Docker 28 ": unknown." ends the line; the advice to read the help is on a line of its own.
    return ended.returncode, ended.stderr.splitlines()[0].removesuffix(".").removesuffix(": unknown")


EXIST = "this host has GPUs 0-7 ('amd-ctk gpu list' shows them)"


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        ("0,9", f"AMD_VISIBLE_DEVICES=0,9: GPU 9 does not exist, {EXIST}"),
        ("0-9999999999", f"AMD_VISIBLE_DEVICES=0-9999999999: GPUs 8-9999999999 do not exist, {EXIST}"),
        ("3-1", "AMD_VISIBLE_DEVICES=3-1: '3-1' is not a range of GPUs (write 1-3)"),
        (
            "gpu0",
            "AMD_VISIBLE_DEVICES=gpu0: 'gpu0' is not a GPU number, range, unique id or PCI address (write GPUs 0-7)",
        ),
    ],
)
def test_docker_shows_the_toolkits_message(docker, request_, sentence):
    exit_code, shown = refuse(docker, request_)

    assert exit_code == 125
    assert shown.startswith("docker: Error response from daemon:")
    assert shown.endswith(f"OCI runtime create failed: amd-container-runtime: {sentence}")


def test_another_device_in_the_place_of_a_gpu_is_refused(docker):
    exit_code, shown = refuse(docker, "0", "--device=/dev/zero:/dev/kfd")

    assert exit_code == 125
    assert shown.endswith(
        "amd-container-runtime: the container has device 1:5 at /dev/kfd, where 511:0 belongs"
        " (leave out the --device that puts it there)"
    )


def test_nothing_is_left_of_a_refused_container(docker):
    refuse(docker, "9")

    assert docker("ps", "--all", "--quiet").stdout == ""


def test_a_refused_container_can_be_removed_and_another_made(docker, see):
    refused = docker("create", "--runtime=amd", "--env=AMD_VISIBLE_DEVICES=9", IMAGE).stdout.strip()
    assert docker("start", refused, check=False).returncode == 1

    docker("rm", refused)

    assert len(see("0")) == 3


def test_a_host_without_the_driver_refuses_gpus_and_runs_everything_else(start_docker, tmp_path_factory):
    docker = start_docker(build_host(tmp_path_factory.mktemp("bare") / "host", "no-driver").root)

    exit_code, shown = refuse(docker, "all")

    assert exit_code == 125
    assert shown.endswith(
        "amd-container-runtime: amdgpu driver unavailable: /sys/module/amdgpu/drivers/ does not exist"
        " (load it with 'sudo modprobe amdgpu', or install it)"
    )
    assert docker.output("--runtime=amd", command=("echo", "fine")) == "fine\n"
