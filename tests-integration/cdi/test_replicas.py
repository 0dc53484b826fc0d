"""Replicas of a service, with the real Docker Compose: each has another GPU of four exclusive ones."""

from __future__ import annotations

import json

import pytest

from support.docker import IMAGE

pytestmark = [pytest.mark.e2e, pytest.mark.engines]

COMPOSE = ("docker", "compose", "--file=/root/replicas.yaml")
REPLICAS = f"""\
services:
  worker:
    image: {IMAGE}
    runtime: amd
    network_mode: none
    environment:
      AMD_VISIBLE_DEVICES: free:1
    command: ["sleep", "600"]
    deploy:
      replicas: 4
"""
# Both names without a value: Compose takes them from its own environment.
RESERVED = f"""\
services:
  train:
    image: {IMAGE}
    runtime: amd
    network_mode: none
    environment:
      - AMD_VISIBLE_DEVICES
      - AMD_CTK_RESERVATION
    command: ["sh", "-c", "echo $$AMD_VISIBLE_DEVICES >/output"]
    volumes: ["/box/output:/output"]
"""


@pytest.fixture
def machine(docker_28):
    """Return the box of the engine; its GPUs are exclusive until the test is over, and then no replica runs."""
    box = docker_28.box
    box("amd-ctk", "gpu-tracker", "enable")
    box("amd-ctk", "gpu-tracker", "all", "exclusive")
    yield box
    box(*COMPOSE, "down", "--timeout=0", check=False)
    box("amd-ctk", "gpu-tracker", "disable")


def write_service(machine, text):
    machine.write("/root/replicas.yaml", text.encode())


def given(machine):
    """Return the GPUs of each container of the service, as its first process was told."""
    containers = machine(*COMPOSE, "ps", "--quiet").stdout.split()
    return sorted(machine("docker", "exec", name, "sh", "-c", READ).stdout for name in containers)


READ = "tr '\\0' '\\n' </proc/1/environ | grep ^AMD_VISIBLE_DEVICES="


def test_each_replica_has_another_gpu_and_one_too_many_is_refused(machine):
    write_service(machine, REPLICAS)

    machine(*COMPOSE, "up", "--detach")

    assert given(machine) == [f"AMD_VISIBLE_DEVICES={number}\n" for number in range(4)]
    users = json.loads(machine("amd-ctk", "gpu-tracker", "status", "--json").stdout)["gpus"]
    assert [len(gpu["containers"]) for gpu in users] == [1, 1, 1, 1]
    more = machine(*COMPOSE, "up", "--detach", "--scale=worker=5", check=False)
    assert more.returncode != 0
    assert (
        "free:1: 0 of 4 GPUs are free (0-3 exclusive and in use);"
        " 'amd-ctk run --gpus=free:1 --wait -- COMMAND' waits for one"
    ) in more.stderr
    assert given(machine) == [f"AMD_VISIBLE_DEVICES={number}\n" for number in range(4)]


def test_a_service_has_the_gpus_that_were_reserved_for_it(machine):
    write_service(machine, RESERVED)
    output = machine.share / "output"
    output.write_text("")
    reserve = ("amd-ctk", "run", "--gpus=auto:2", "--wait", "--")

    ended = machine(*reserve, *COMPOSE, "up", "--force-recreate", "--exit-code-from=train")

    assert ended.stderr.startswith("GPUs 0 and 1\n")
    assert output.read_text() == "0,1\n"
    users = json.loads(machine("amd-ctk", "gpu-tracker", "status", "--json").stdout)["gpus"]
    assert [gpu["containers"] for gpu in users] == [[], [], [], []]
