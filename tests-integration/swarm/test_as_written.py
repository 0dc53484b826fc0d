"""What guides say is written by hand: a budget on dockerd's command line, and AMD's daemon.json and stack files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amdgpu_simulator import load_profile
from support.docker import IMAGE
from support.swarm_node import Node, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.docker, pytest.mark.swarm]

# What `systemctl edit docker` is to contain, word for word.
DROP_IN = """\
[Service]
ExecStart=
ExecStart=/usr/bin/dockerd -H unix:///var/run/docker.sock --node-generic-resource VRAM=8000
"""
# The GPUs of AMD's example.
UUIDS = (0x378041E1ADA6015, 0xEF39DAD16AFB86AD, 0x583DE6F2D99DC333)
DAEMON_JSON = """{
  "default-runtime": "amd",
  "runtimes": {
    "amd": {
      "path": "amd-container-runtime",
      "runtimeArgs": []
    }
  },
  "node-generic-resources": [
    "AMD_GPU=0x378041e1ada6015",
    "AMD_GPU=0xef39dad16afb86ad",
    "GPU_COMPUTE=0x583de6f2d99dc333"
  ]
}
"""
RESERVED = """\
# docker-compose.yml for Swarm deployment
version: '3.8'
services:
  rocm-service:
    image: rocm/dev-ubuntu-24.04
    command: rocm-smi
    deploy:
      replicas: 1
      resources:
        reservations:
          generic_resources:
            - discrete_resource_spec:
                kind: 'AMD_GPU'  # Matches daemon.json key
                value: 1
"""
BY_ENVIRONMENT = """\
# docker-compose.yml for Swarm deployment with environment variable
version: '3.8'
services:
  rocm-service:
    image: rocm/dev-ubuntu-24.04
    command: rocm-smi
    environment:
      - AMD_VISIBLE_DEVICES=all
    deploy:
      replicas: 1
"""


def make_image(node: Node, name: str, program: str) -> None:
    """Give the node an image in which a program takes its time."""
    script = f"printf '#!/bin/sh\\nexec sleep 1000\\n' >/bin/{program}; chmod +x /bin/{program}"
    node("run", "--name=maker", "--network=none", "--runtime=runc", IMAGE, "sh", "-c", script)
    node("commit", f"--change=CMD {json.dumps([program])}", "maker", name)
    node("rm", "maker")


@pytest.fixture(scope="module")
def budget(make_node: Callable[..., Node], start_manager: Callable[[Node], Node]) -> Node:
    """Return a node with a budget of memory on its daemon's command line."""
    node = make_node("budget", "mi210-4")
    unit = Path(node.host.path("/lib/systemd/system/docker.service"))
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\nExecStart=/usr/bin/dockerd -H fd://\n")
    drop_in = Path(node.host.path("/etc/systemd/system/docker.service.d/override.conf"))
    drop_in.parent.mkdir(parents=True)
    drop_in.write_text(DROP_IN)
    prepared = node.set_up("--vram", "--headroom-mib=500")
    assert (prepared.returncode, prepared.stderr) == (
        0,
        "docker.service advertises VRAM=8000, which is the budget of this node\n",
    )
    node.daemon_options = ("--node-generic-resource", "VRAM=8000")
    start_manager(node)
    make_image(node, "nvidia/cuda", "train")
    return node


@pytest.fixture(scope="module")
def by_hand(make_node: Callable[..., Node], start_manager: Callable[[Node], Node]) -> Node:
    """Return a node with AMD's daemon.json, which was written by hand."""
    profile = load_profile("mi210-4")
    for position, unique_id in enumerate(UUIDS):
        profile = profile.with_gpu(position, pci_unique_id=unique_id, kfd_unique_ids=(unique_id,))
    node = make_node("hand", profile)
    own = json.loads(node.daemon_json.read_text())
    written = json.loads(DAEMON_JSON)
    # The path is that of the program under test, which dockerd does not find on its PATH.
    written["runtimes"]["amd"]["path"] = own["runtimes"]["amd"]["path"]
    node.daemon_json.write_text(json.dumps({**own, **written}))
    start_manager(node)
    make_image(node, "rocm/dev-ubuntu-24.04", "rocm-smi")
    # Docker 20.10 rejects a task with generic resources when its network is new to the node, and again after each
    # rejection, because the network leaves the node with the task. So a task without resources holds the stack's.
    label = "--label=com.docker.stack.namespace=rocm-stack"
    node("network", "create", "--driver=overlay", "--attachable", label, "rocm-stack_default")
    node.create_service("holder", "--network=rocm-stack_default")
    node.wait_for_running("holder", 1)
    return node


@pytest.fixture
def stack(by_hand: Node, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Return a function that deploys a file as the stack rocm-stack and returns its container."""

    def deploy(text: str) -> str:
        file = tmp_path / "docker-compose.yml"
        file.write_text(text)
        by_hand("stack", "deploy", "-c", os.fspath(file), "rocm-stack")
        by_hand.wait_for_running("rocm-stack_rocm-service", 1)
        (container,) = by_hand.containers("rocm-stack_rocm-service")
        return container

    yield deploy
    by_hand.remove_service("rocm-stack_rocm-service")


def test_a_budget_on_the_daemons_command_line_is_kept_and_what_is_beyond_it_waits(budget: Node) -> None:
    # As the article has it, three times: of 8000 there are two.
    services = [
        budget("service", "create", "--detach", "--generic-resource", "VRAM=4000", "nvidia/cuda").stdout.strip()
        for _ in range(3)
    ]
    # On a busy machine Swarm places several at once, in an order of its own.
    wait_until(
        lambda: sum(budget.running(each) for each in services) == 2,
        lambda: f"{[budget.tasks(each) for each in services]}",
    )
    first, second, third = sorted(services, key=lambda each: not budget.running(each))

    (waiting,) = budget.tasks(third)
    assert (waiting["CurrentState"].split()[0], waiting["Error"]) == (
        "Pending",
        "no suitable node (insufficient resources on 1 node)",
    )
    containers = budget("ps", "--quiet", "--no-trunc").stdout.split()
    assert [budget.environment(container) for container in containers] == [
        {
            "DOCKER_RESOURCE_VRAM": "4000",
            "AMD_VRAM_LIMIT_MB": "4000",
            "AMD_VRAM_TOTAL_MB": "65520",
            # (4000 - 500) / 65520: the headroom that the node was set up with stays out.
            "AMD_VRAM_FRACTION": "0.0534",
        }
    ] * 2
    pools = json.loads(budget.amd_ctk("swarm", "status", "--json").stdout)["pools"]
    assert pools == [{"kind": "VRAM", "offered_mb": 8000, "reserved_mb": 8000}]

    budget("service", "rm", first)

    budget.wait_for_running(third, 1)
    budget("service", "rm", second, third)


def test_the_stack_file_of_amds_guide_gives_a_reserved_gpu(by_hand: Node, stack: Callable[[str], str]) -> None:
    container = stack(RESERVED)

    environment = by_hand.environment(container)
    assert len(by_hand.gpu_nodes(container)) == 1
    assert environment["DOCKER_RESOURCE_AMD_GPU"] in ("0x378041e1ada6015", "0xef39dad16afb86ad")
    # The network of a stack whose file names none.
    networks = by_hand("network", "ls", "--filter=name=rocm-stack_default", "--format={{.Driver}} {{.Scope}}").stdout
    attached = by_hand("inspect", "--format={{json .NetworkSettings.Networks}}", container).stdout
    assert (networks, list(json.loads(attached))) == ("overlay swarm\n", ["rocm-stack_default"])


def test_the_stack_file_of_amds_guide_with_an_environment_gives_all_gpus(
    by_hand: Node, stack: Callable[[str], str]
) -> None:
    container = stack(BY_ENVIRONMENT)

    assert by_hand.environment(container) == {"AMD_VISIBLE_DEVICES": "all"}
    assert len(by_hand.gpu_nodes(container)) == 4
