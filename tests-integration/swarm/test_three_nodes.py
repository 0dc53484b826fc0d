"""A swarm of three nodes with nine GPUs, of which some are drained, killed, and back: who has which GPU, at any time.

What a task got is what its container may open; when, is what the engines' events say.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from support.swarm_node import Node, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.docker, pytest.mark.swarm]

NO_ROOM = "no suitable node (insufficient resources on 3 nodes)"
# What each of the nine GPUs is named in /dev.
GPUS = [
    *[("one", f"/dev/dri/renderD{minor}") for minor in (128, 129, 130, 131)],
    ("three", "/dev/dri/renderD128"),
    *[("two", f"/dev/dri/renderD{minor}") for minor in (128, 136, 144, 152)],
]
# Writes down what it may open, under its container's name.
NOTE = "list-gpus | grep renderD | grep 'opens$' | cut -d' ' -f1 >/given/$(hostname); exec sleep 1000"


class Swarm(NamedTuple):
    manager: Node
    second: Node
    third: Node

    def opened(self, service: str) -> list[tuple[str, str]]:
        """Return the node and the GPU of each container of a service that runs now."""
        nodes = [(node, node.containers(service)) for node in self]
        return sorted((node.name, gpu) for node, found in nodes for c in found for gpu in node.gpu_nodes(c))

    def running_on(self, service: str) -> list[int]:
        """Return how many containers of a service each node has."""
        return [len(node.containers(service)) for node in self]

    def reserved(self) -> int:
        """Return how many GPUs the trackers of all nodes say are in use."""
        told = [json.loads(node.amd_ctk("gpu-tracker", "status", "--json").stdout)["gpus"] for node in self]
        return sum(bool(gpu["containers"]) for gpus in told for gpu in gpus)


@pytest.fixture(scope="module")
def joined(
    make_node: Callable[..., Node],
    start_manager: Callable[[Node], Node],
    start_worker: Callable[[Node, Node], Node],
) -> Swarm:
    """Return the nodes, each of which has a cable to each other."""
    swarm = Swarm(
        make_node("one", "mi210-4", "10.99.8.1"),
        make_node("two", "mi300a-4", "10.99.8.2"),
        make_node("three", "one-gpu", "10.99.8.3"),
    )
    for here, there in ((0, 1), (0, 2), (1, 2)):
        swarm[here].connect(swarm[there])
    for node in swarm:
        prepared = node.set_up("--vram")
        assert (prepared.returncode, prepared.stderr) == (0, "")
    start_manager(swarm.manager)
    for node in swarm[1:]:
        start_worker(node, swarm.manager)
    return swarm


@pytest.fixture(autouse=True)
def freed(joined: Swarm) -> Iterator[None]:
    """Require that no GPU stays in use when the services of a test are gone."""
    yield
    wait_until(lambda: joined.reserved() == 0, lambda: "GPUs stay in use")


def were_shared(node: Node, given: Path) -> list[str]:
    """Return the GPUs of a node that two containers had at once, of containers that noted what they were given."""
    holders: dict[str, str] = {}
    shared = []
    for event, container in node.lives():
        note = given / container[:12]
        for gpu in note.read_text().split() if note.exists() else ():
            if event == "die":
                holders.pop(gpu, None)
            elif holders.setdefault(gpu, container) != container:
                shared.append(gpu)
    return shared


def wait_for_update(swarm: Swarm) -> None:
    """Wait until the update of a service is complete, and all of its replicas run."""
    state = ("service", "inspect", "--format={{.UpdateStatus.State}}", "gpus")

    def is_complete() -> bool:
        return swarm.manager(*state).stdout == "completed\n" and swarm.manager.running("gpus") == 9

    wait_until(is_complete, lambda: f"{swarm.manager.tasks('gpus')}")


@pytest.fixture
def given(swarm: Swarm, tmp_path: Path) -> Path:
    """Return where nine replicas note what they may open; they have a GPU each, and every GPU is in use."""
    given = tmp_path / "given"
    given.mkdir()
    swarm.manager.create_service(
        "gpus",
        *("--replicas=9", "--generic-resource=AMD_GPU=1", "--update-monitor=1s"),
        f"--mount=type=bind,source={given},destination=/given",
        command=("sh", "-c", NOTE),
    )
    swarm.manager.wait_for_running("gpus", 9)
    assert swarm.opened("gpus") == GPUS
    return given


def test_an_update_replaces_nine_replicas_on_nine_gpus_and_none_is_shared_meanwhile(swarm: Swarm, given: Path) -> None:
    swarm.manager("service", "update", "--detach", "--update-parallelism=2", "--env-add=AMD_ROUND=2", "gpus")

    wait_for_update(swarm)
    assert swarm.opened("gpus") == GPUS
    rounds = [node.environment(c)["AMD_ROUND"] for node in swarm for c in node.containers("gpus")]
    assert (rounds, len(list(given.iterdir()))) == (["2"] * 9, 18)
    assert [were_shared(node, given) for node in swarm] == [[], [], []]


def test_an_update_that_starts_first_waits_for_a_free_gpu_and_leaves_who_runs_alone(swarm: Swarm, given: Path) -> None:
    before = [node.containers("gpus") for node in swarm]
    swarm.manager("service", "update", "--detach", "--update-order=start-first", "--env-add=AMD_ROUND=2", "gpus")

    def waiting() -> list[str]:
        return [task["Error"] for task in swarm.manager.tasks("gpus") if task["CurrentState"].startswith("Pending")]

    wait_until(lambda: waiting() == [NO_ROOM], lambda: f"{swarm.manager.tasks('gpus')}")
    assert [node.containers("gpus") for node in swarm] == before

    # Without --force Swarm forgets the replica that waits: it is one of the service as it was before this.
    swarm.manager("service", "update", "--detach", "--force", "--update-order=stop-first", "gpus")

    wait_for_update(swarm)
    assert swarm.opened("gpus") == GPUS
    assert [were_shared(node, given) for node in swarm] == [[], [], []]


def test_more_replicas_than_gpus_wait_and_each_gpu_that_is_given_back_goes_to_one_of_them(swarm: Swarm) -> None:
    swarm.manager.create_service("gpus", "--replicas=12", "--generic-resource=AMD_GPU=1")
    swarm.manager.wait_for_running("gpus", 9)

    waiting = [task["Error"] for task in swarm.manager.tasks("gpus") if task["CurrentState"].startswith("Pending")]
    assert (waiting, swarm.opened("gpus")) == ([NO_ROOM] * 3, GPUS)
    (ended,) = swarm.third.containers("gpus")
    swarm.third("rm", "--force", ended)

    wait_until(lambda: set(swarm.third.containers("gpus")) - {ended} != set())
    assert swarm.opened("gpus") == GPUS


def test_memory_that_swarm_promises_twice_is_found_where_it_is(swarm: Swarm) -> None:
    """Swarm adds up the memory of a node's GPUs, and fails to see that 50000 MiB fit on one of 65520 only once."""
    swarm.manager.create_service("parts", "--replicas=12", "--generic-resource=VRAM=50000")

    swarm.manager.wait_for_running("parts", 12)

    twice = [gpu for gpu in GPUS if gpu[0] == "two"]
    assert swarm.opened("parts") == sorted([*[gpu for gpu in GPUS if gpu[0] == "one"], *twice, *twice])


def test_tasks_move_from_a_drained_and_a_killed_node_and_back(swarm: Swarm) -> None:
    swarm.manager.create_service("gpus", "--replicas=5", "--generic-resource=AMD_GPU=1")
    swarm.manager.wait_for_running("gpus", 5)

    swarm.manager("node", "update", "--availability=drain", "three")
    wait_until(lambda: sum(swarm.running_on("gpus")) == 5 and not swarm.third.containers("gpus"))
    swarm.second.kill()
    wait_until(lambda: len(swarm.manager.containers("gpus")) == 4)
    swarm.manager("node", "update", "--availability=active", "three")
    wait_until(lambda: len(swarm.third.containers("gpus")) == 1)
    swarm.second.start()
    swarm.manager("service", "scale", "--detach", "gpus=9")

    wait_until(lambda: swarm.running_on("gpus") == [4, 4, 1], lambda: f"{swarm.running_on('gpus')}")
    assert (swarm.opened("gpus"), swarm.reserved()) == (GPUS, 9)


def test_a_killed_engine_ends_what_outlived_it_before_its_gpus_are_given_out_again(swarm: Swarm, given: Path) -> None:
    before = set(swarm.second.containers("gpus"))

    swarm.second.dockerd.kill()
    swarm.second.dockerd.wait()
    swarm.second.halt()
    swarm.second.start()

    def are_others() -> bool:
        now = set(swarm.second.containers("gpus"))
        return len(now) == 4 and not now & before and swarm.manager.running("gpus") == 9

    wait_until(are_others, lambda: f"{swarm.manager.tasks('gpus')}")
    assert (swarm.opened("gpus"), swarm.reserved()) == (GPUS, 9)
    assert [were_shared(node, given) for node in swarm] == [[], [], []]


def test_a_killed_node_that_was_removed_joins_again_with_its_gpus_and_without_its_labels(swarm: Swarm) -> None:
    swarm.manager("node", "update", "--label-add=amd.gpu.model=MI300A", "two")
    swarm.manager.create_service("gpus", "--replicas=9", "--generic-resource=AMD_GPU=1")
    swarm.manager.wait_for_running("gpus", 9)

    swarm.second.kill()
    swarm.manager("node", "rm", "--force", "two")
    swarm.second.start()
    swarm.second("swarm", "leave", "--force")
    swarm.second.join(swarm.manager)

    wait_until(lambda: swarm.running_on("gpus") == [4, 4, 1], lambda: f"{swarm.running_on('gpus')}")
    assert (swarm.opened("gpus"), swarm.reserved()) == (GPUS, 9)
    assert swarm.manager("node", "inspect", "--format={{.Spec.Labels}}", "two").stdout == "map[]\n"
