"""A swarm of one node with four MI210: whole GPUs by name, memory by amount, and jobs that wait their turn."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.docker import IMAGE, EngineError
from support.swarm_node import Node, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.docker, pytest.mark.swarm]

UUIDS = ["0xEA35F57CC80DEB35", "0x89CAA15875FF5A43", "0x6E32F10EFC982B4C", "0x12FE4F7FDAF06B9"]
RENDER_NODES = ["/dev/dri/renderD130", "/dev/dri/renderD131", "/dev/dri/renderD129", "/dev/dri/renderD128"]
ONE_SHOT = ("--restart-condition=none", "--label=com.amd.container-toolkit.one-shot=true")


@pytest.fixture(scope="module")
def prepared(make_node: Callable[..., Node], start_manager: Callable[[Node], Node]) -> Node:
    """Return a node that one command has prepared."""
    node = make_node("one", "mi210-4")
    answer = node.set_up("--vram")
    assert (answer.returncode, answer.stderr) == (0, "")
    return start_manager(node)


@pytest.fixture
def node(prepared: Node) -> Iterator[Node]:
    """Return that node; what a test leaves is removed."""
    yield prepared
    services = prepared("service", "ls", "--quiet").stdout.split()
    if services:
        prepared("service", "rm", *services)
    wait_until(lambda: not prepared("ps", "--quiet").stdout)


def offer(node: Node) -> dict[str, list[dict[str, object]]]:
    return json.loads(node.amd_ctk("swarm", "status", "--json").stdout)


def leases(node: Node) -> list[list[tuple[str, int]]]:
    """Return who has each GPU, and how much of it."""
    return [
        [(reservation["container_id"], reservation["vram_mb"]) for reservation in gpu["reservations"]]
        for gpu in offer(node)["gpus"]
    ]


def given(node: Node, service: str) -> list[str]:
    """Return the GPUs that the tasks of a service were given, [] while one of them ends."""
    try:
        return sorted(node.environment(c)["DOCKER_RESOURCE_AMD_GPU"] for c in node.containers(service))
    except EngineError:
        return []


def test_replicas_have_different_gpus_and_the_fifth_of_four_waits_for_one(node: Node) -> None:
    node.create_service("gpus", "--replicas=5", "--restart-condition=none", "--generic-resource=AMD_GPU=1")
    node.wait_for_running("gpus", 4)

    containers = node.containers("gpus")
    assert sorted(node.environment(c)["DOCKER_RESOURCE_AMD_GPU"] for c in containers) == sorted(UUIDS)
    nodes_by_uuid = {node.environment(c)["DOCKER_RESOURCE_AMD_GPU"]: node.gpu_nodes(c) for c in containers}
    assert nodes_by_uuid == {uuid: [path] for uuid, path in zip(UUIDS, RENDER_NODES, strict=True)}
    (waiting,) = [task for task in node.tasks("gpus") if task["CurrentState"].startswith("Pending")]
    assert waiting["Error"] == "no suitable node (insufficient resources on 1 node)"

    ended, *others = containers
    freed = node.environment(ended)["DOCKER_RESOURCE_AMD_GPU"]
    node("rm", "--force", ended)

    wait_until(lambda: set(node.containers("gpus")) > set(others))
    (started,) = set(node.containers("gpus")) - set(others)
    assert node.environment(started) == {"DOCKER_RESOURCE_AMD_GPU": freed}


def test_an_image_adds_no_gpu_to_what_swarm_chose(node: Node) -> None:
    wishes = ("AMD_VISIBLE_DEVICES=all", "DOCKER_RESOURCE_GPU=all", "DOCKER_RESOURCE_ANYTHING=0000:26:00.0")
    variables = [f"--env={variable}" for variable in (*wishes, "DOCKER_RESOURCE_AMD_GPU=all")]
    node.create_service("greedy", "--generic-resource=AMD_GPU=1", *variables)
    node.wait_for_running("greedy", 1)

    (container,) = node.containers("greedy")
    uuid = node.environment(container)["DOCKER_RESOURCE_AMD_GPU"]
    assert node.gpu_nodes(container) == [RENDER_NODES[UUIDS.index(uuid)]]


def test_status_shows_what_is_offered_and_who_has_it(node: Node) -> None:
    node.create_service("gpus", "--replicas=2", "--generic-resource=AMD_GPU=1")
    node.wait_for_running("gpus", 2)

    shown = offer(node)

    assert shown["problems"] == []
    assert shown["pools"] == [{"kind": "VRAM", "offered_mb": 262080, "reserved_mb": 0}]
    assert [gpu["resources"] for gpu in shown["gpus"]] == [[f"AMD_GPU={uuid}"] for uuid in UUIDS]
    held = [reservation for gpu in shown["gpus"] for reservation in gpu["reservations"]]
    assert sorted(reservation["container_id"] for reservation in held) == sorted(node.containers("gpus"))
    assert {(*reservation["kinds"], reservation["vram_mb"]) for reservation in held} == {("AMD_GPU", 0)}


def test_memory_is_shared_by_tasks_that_know_their_part(node: Node) -> None:
    node.create_service("small", "--replicas=3", "--generic-resource=VRAM=20000", "--env=AMD_VISIBLE_DEVICES=all")
    node.wait_for_running("small", 3)

    containers = node.containers("small")
    assert [node.gpu_nodes(c) for c in containers] == [[RENDER_NODES[0]]] * 3
    assert {node.environment(c)["AMD_VRAM_LIMIT_MB"] for c in containers} == {"20000"}
    assert {node.environment(c)["AMD_VRAM_TOTAL_MB"] for c in containers} == {"65520"}
    assert {node.environment(c)["AMD_VRAM_FRACTION"] for c in containers} == {"0.3052"}
    assert [len(held) for held in leases(node)] == [3, 0, 0, 0]
    assert offer(node)["pools"] == [{"kind": "VRAM", "offered_mb": 262080, "reserved_mb": 60000}]
    tracked = json.loads(node.amd_ctk("gpu-tracker", "status", "--json").stdout)["gpus"][0]["containers"]
    assert sorted((use["container_id"], use["vram_mb"]) for use in tracked) == sorted((c, 20000) for c in containers)

    node.remove_service("small")

    wait_until(lambda: leases(node) == [[], [], [], []])


def test_memory_that_is_in_no_single_piece_is_refused_and_others_are_unharmed(node: Node) -> None:
    node.create_service("large", "--replicas=4", "--generic-resource=VRAM=50000")
    node.wait_for_running("large", 4)
    before = leases(node)

    node.create_service("late", *ONE_SHOT, "--generic-resource=VRAM=20000")

    assert (
        "amd-container-runtime: DOCKER_RESOURCE_VRAM=20000: no GPU has that much free memory: 62080 MiB free on this"
        " node, at most 15520 MiB on one GPU (GPU 0)"
    ) in node.wait_for_error("late")
    assert (leases(node), node.running("large")) == (before, 4)


def test_a_task_that_is_refused_runs_once_there_is_room(node: Node) -> None:
    node.create_service("large", "--replicas=4", "--generic-resource=VRAM=50000")
    node.wait_for_running("large", 4)
    node.create_service("late", "--generic-resource=VRAM=20000")
    node.wait_for_error("late")

    node.remove_service("large")

    node.wait_for_running("late", 1)


def test_more_memory_than_any_gpu_has_is_refused(node: Node) -> None:
    node.create_service("huge", *ONE_SHOT, "--generic-resource=VRAM=65521")

    assert (
        "DOCKER_RESOURCE_VRAM=65521 is more than any GPU of this node has, the largest has 65520 MiB"
        in node.wait_for_error("huge")
    )


def test_a_gpu_that_is_reserved_whole_gives_no_memory_and_the_other_way_round(node: Node) -> None:
    node.create_service("whole", "--replicas=3", "--generic-resource=AMD_GPU=1")
    node.wait_for_running("whole", 3)
    node.create_service("part", "--generic-resource=VRAM=1000")
    node.wait_for_running("part", 1)

    (part,) = node.containers("part")
    whole = [node.gpu_nodes(c) for c in node.containers("whole")]
    assert node.gpu_nodes(part) not in whole

    node.create_service("more", *ONE_SHOT, "--generic-resource=AMD_GPU=1")

    number = RENDER_NODES.index(node.gpu_nodes(part)[0])
    refused = f"GPU {number} is reserved as VRAM by container {part}, not free as AMD_GPU"
    assert refused in node.wait_for_error("more")


def test_without_the_tracker_memory_is_refused(node: Node) -> None:
    node.amd_ctk("gpu-tracker", "disable")
    try:
        node.create_service("part", *ONE_SHOT, "--generic-resource=VRAM=1000")

        assert "memory can be reserved only while the GPU Tracker is enabled" in node.wait_for_error("part")
    finally:
        node.amd_ctk("gpu-tracker", "enable")


def test_jobs_queue_for_gpus_and_are_pruned_when_they_are_done(node: Node) -> None:
    for job in range(6):
        node.create_service(f"job{job}", *ONE_SHOT, "--generic-resource=AMD_GPU=1", command=("sleep", "2"))
    node.create_service("broken", *ONE_SHOT, command=("false",))
    node.create_service("other", "--restart-condition=none", command=("true",))
    node.create_service("endless", *ONE_SHOT, "--generic-resource=AMD_GPU=5")
    jobs = [f"job{job}" for job in range(6)]
    wait_until(lambda: all(node.tasks(job)[0]["CurrentState"].startswith("Complete") for job in jobs))
    wait_until(lambda: node.tasks("broken")[0]["CurrentState"].startswith("Failed"))

    kept = node.amd_ctk("swarm", "prune", "--keep-failed")
    pruned = node.amd_ctk("swarm", "prune")

    assert kept.stdout.splitlines() == [f"Removed service {job} (complete)" for job in jobs]
    assert pruned.stdout == "Removed service broken (failed)\n"
    left = node("service", "ls", "--format={{.Name}}").stdout.split()
    assert sorted(left) == ["endless", "other"]


def test_a_restarted_engine_gives_its_gpus_out_again(node: Node) -> None:
    node.create_service("gpus", "--replicas=4", "--generic-resource=AMD_GPU=1")
    node.wait_for_running("gpus", 4)
    before = set(node.containers("gpus"))

    node.restart()

    # Docker 20.10 may start a task, end it and start another.
    wait_until(lambda: given(node, "gpus") == sorted(UUIDS) and not before & set(node.containers("gpus")))
    held = [container for gpu in leases(node) for container, _ in gpu]
    assert sorted(held) == sorted(node.containers("gpus"))


def test_a_job_for_each_line_of_a_file_waits_for_its_memory_and_is_pruned(node: Node, tmp_path: Path) -> None:
    parameters = tmp_path / "params.txt"
    parameters.write_text("".join(f"{seconds}\n" for seconds in (3, 3, 3, 3, 3)) + "# a comment\n")
    submit = ("swarm", "submit", "sweep", "--vram=60000", f"--each={parameters}", IMAGE, "--", "sleep")

    submitted = node.amd_ctk(*submit)
    again = node.amd_ctk(*submit)

    jobs = [f"sweep-{line}" for line in range(1, 6)]
    assert (submitted.returncode, submitted.stderr) == (0, "")
    assert submitted.stdout == "".join(f"Submitted {job}: 3\n" for job in jobs)
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr.startswith("a service sweep-1 exists already, so nothing was submitted")
    wait_until(lambda: all(node.tasks(job)[0]["CurrentState"].startswith("Complete") for job in jobs))
    assert node.amd_ctk("swarm", "prune").stdout == "".join(f"Removed service {job} (complete)\n" for job in jobs)


def test_status_names_the_tasks_and_services_that_have_gpus(node: Node) -> None:
    node.create_service("training", "--generic-resource=AMD_GPU=1")
    node.wait_for_running("training", 1)

    (held,) = [reservation for gpu in offer(node)["gpus"] for reservation in gpu["reservations"]]

    assert (held["service"], held["task"].rpartition(".")[0]) == ("training", "training.1")
    assert "  training.1 whole\n" in node.amd_ctk("swarm", "status").stdout
