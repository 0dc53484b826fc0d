"""Podman with amd-container-runtime as its runtime."""

from __future__ import annotations

import pytest

from support.docker import IMAGE
from support.seen import SeenNode, parse_seen

pytestmark = [pytest.mark.e2e, pytest.mark.podman]

GPU_0 = [
    SeenNode("/dev/kfd", "511:0", "666", "0:110", "opens"),
    SeenNode("/dev/dri/card1", "226:1", "666", "0:44", "opens"),
    SeenNode("/dev/dri/renderD128", "226:128", "666", "0:110", "opens"),
]


@pytest.fixture
def start(podman):
    started = []

    def start(gpus, *options):
        asking = ("--detach", f"--env=AMD_VISIBLE_DEVICES={gpus}")
        started.append(podman("run", *asking, *options, IMAGE, "sleep", "600").stdout.strip())
        return started[-1]

    yield start
    for container in started:
        podman("rm", "--force", "--time=0", container, check=False)


@pytest.mark.parametrize("options", [(), ("--user=1000:1000",), ("--init",), ("--read-only",)], ids=" ".join)
def test_a_container_sees_the_gpus_it_asked_for_and_no_other(podman, options):
    if "--init" in options and podman("run", "--rm", "--init", IMAGE, "true", check=False).returncode:
        pytest.skip("this machine has no catatonit, which podman --init needs")

    seen = podman("run", "--rm", "--env=AMD_VISIBLE_DEVICES=0", *options, IMAGE, "list-gpus").stdout

    assert parse_seen(seen) == GPU_0


def test_the_cgroup_allows_the_numbers_of_its_gpus_and_no_other(podman):
    numbers = ["226:0", "226:1", "226:9", "226:128", "226:129", "226:136", "511:0"]
    asking = ("--rm", "--cap-add=MKNOD", "--env=AMD_VISIBLE_DEVICES=0")

    tried = parse_seen(podman("run", *asking, IMAGE, "try-numbers", *numbers).stdout)

    assert {node.access for node in tried} == {"opens", "refused-by-cgroup"}
    assert [node.numbers for node in tried if node.access == "opens"] == ["226:1", "226:128", "511:0"]


def test_a_bad_request_is_refused_with_the_toolkits_message(podman):
    ended = podman("run", "--rm", "--env=AMD_VISIBLE_DEVICES=8", IMAGE, "true", check=False)

    assert ended.returncode == 126
    assert (
        "amd-container-runtime: AMD_VISIBLE_DEVICES=8: GPU 8 does not exist, this host has GPUs 0-7"
        " ('amd-ctk gpu list' shows them)"
    ) in ended.stderr


def test_a_user_who_is_not_root_opens_its_gpus_in_exec(podman, start):
    container = start("0", "--user=1000:1000")

    assert parse_seen(podman("exec", container, "list-gpus").stdout) == GPU_0


def test_restart_keeps_the_nodes(podman, start):
    container = start("0")

    podman("restart", "--time=0", container)

    assert parse_seen(podman("exec", container, "list-gpus").stdout) == GPU_0


def test_a_container_is_stopped_and_removed(podman, start):
    container = start("0")

    podman("stop", "--time=0", container)
    stopped = podman("inspect", "--format={{.State.Status}} {{.State.ExitCode}}", container).stdout
    podman("rm", container)

    assert stopped == "exited 137\n"
    assert container not in podman("ps", "--all", "--quiet", "--no-trunc").stdout
