"""Nodes that offer what they do not have: tasks are told why, and others run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from support.swarm_node import Node, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.docker, pytest.mark.swarm]

# GPU 0 and 2 by honest kinds; the rest is what people write by hand.
RESOURCES = [
    "AMD_GPU=0xEA35F57CC80DEB35",
    "GPU_COMPUTE=0x6E32F10EFC982B4C",
    "MI210=0x6e32f10efc982b4c",
    "GONE=0x378041e1ada6015",
    "GPU=3",
    "WORDS=first",
    "WORDS=second",
    "LICENCE=7",
    "VRAM=300000",
]


@pytest.fixture(scope="module")
def prepared(make_node: Callable[..., Node], start_manager: Callable[[Node], Node]) -> Node:
    node = make_node("one", "mi210-4", **{"default-runtime": "amd", "node-generic-resources": RESOURCES})
    node.amd_ctk("config", "set", "swarm-resources", "AMD_GPU", "GPU", "GPU_COMPUTE", "MI210", "GONE", "WORDS")
    node.amd_ctk("config", "set", "swarm-vram-resources", "VRAM")
    node.amd_ctk("gpu-tracker", "enable")
    start_manager(node)
    node.create_service("honest", "--generic-resource=AMD_GPU=1")
    node.wait_for_running("honest", 1)
    return node


@pytest.fixture
def node(prepared: Node) -> Iterator[Node]:
    """Return the node, on which one honest task runs before and after a test."""
    before = prepared.containers("honest")
    yield prepared
    assert prepared.containers("honest") == before
    others = [name for name in prepared("service", "ls", "--format={{.Name}}").stdout.split() if name != "honest"]
    if others:
        prepared("service", "rm", *others)
    wait_until(lambda: len(prepared("ps", "--quiet").stdout.split()) == 1)


@pytest.mark.parametrize(
    ("reservations", "sentence"),
    [
        (
            ["GONE=1"],
            "DOCKER_RESOURCE_GONE=0x378041e1ada6015: no GPU has the unique id 0x378041e1ada6015, this host has",
        ),
        (["GPU=1"], "DOCKER_RESOURCE_GPU=1 is an amount and names no GPU (give every GPU its name in node-generic-"),
        (["WORDS=1"], "' is not a GPU number, range, unique id or PCI address"),
        (
            ["GPU_COMPUTE=1", "MI210=1"],
            "DOCKER_RESOURCE_GPU_COMPUTE and DOCKER_RESOURCE_MI210 both name GPU 2; a GPU can be assigned",
        ),
        (["VRAM=70000"], "DOCKER_RESOURCE_VRAM=70000 is more than any GPU of this node has, the largest has 65520 MiB"),
        (["VRAM=100", "MI210=1"], "DOCKER_RESOURCE_VRAM=100 is memory of a shared GPU and DOCKER_RESOURCE_MI210 names"),
    ],
)
def test_a_task_is_told_what_is_wrong_with_its_resource(node: Node, reservations: list[str], sentence: str) -> None:
    options = [f"--generic-resource={reservation}" for reservation in reservations]

    node.create_service("bad", "--restart-condition=none", *options)

    assert sentence in node.wait_for_error("bad")


def test_two_kinds_of_one_gpu_serve_one_task_at_a_time(node: Node) -> None:
    node.create_service("first", "--generic-resource=GPU_COMPUTE=1")
    node.wait_for_running("first", 1)
    (holder,) = node.containers("first")

    node.create_service("second", "--generic-resource=MI210=1")

    refusal = f"GPU 2 is reserved as GPU_COMPUTE by container {holder}, not free as MI210"
    assert refusal in node.wait_for_error("second")
    node.remove_service("first")
    node.wait_for_running("second", 1)


def test_an_amount_of_another_resource_kind_does_not_concern_gpus(node: Node) -> None:
    node.create_service("licensed", "--generic-resource=LICENCE=2")
    node.wait_for_running("licensed", 1)

    (container,) = node.containers("licensed")
    assert node.environment(container) == {"DOCKER_RESOURCE_LICENCE": "2"}
    assert node.gpu_nodes(container) == []


def test_status_names_each_of_them(node: Node) -> None:
    answer = node.amd_ctk("swarm", "status")

    assert answer.stderr == (
        "GONE=0x378041e1ada6015 names no GPU of this node, so every task that gets it is refused\n"
        "GPU=3 is an amount and names no GPU, so every task that gets it is refused\n"
        "WORDS=first names no GPU of this node, so every task that gets it is refused\n"
        "WORDS=second names no GPU of this node, so every task that gets it is refused\n"
        "GPUs [2] are advertised twice, as GPU_COMPUTE and MI210, and Swarm gives them out twice: the second task is"
        " refused\n"
        "VRAM advertises 300000 MiB, but the GPUs have 262080 MiB\n"
    )
