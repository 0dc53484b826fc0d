"""A swarm of two nodes: four MI210 on its manager, eight MI300X on its worker."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from support.docker import IMAGE
from support.swarm_node import Node, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.docker, pytest.mark.swarm]

GUIDES = Path(__file__).parents[2] / "docs/how-to"
PRUNE_UNIT = Path(__file__).parents[2] / "packaging/systemd/amd-swarm-prune.service"


class Swarm(NamedTuple):
    manager: Node
    worker: Node

    def containers(self, service: str) -> list[tuple[Node, str]]:
        return [(node, container) for node in self for container in node.containers(service)]

    def make_network(self, name: str) -> None:
        """Make an overlay network that is on both nodes before tasks with GPUs are, as Docker 20.10 needs it."""
        self.manager("network", "create", "--driver=overlay", "--attachable", name)
        self.manager.create_service(f"holder-{name}", "--mode=global", f"--network={name}", "--endpoint-mode=dnsrr")
        self.manager.wait_for_running(f"holder-{name}", 2)

    def state_of(self, service: str) -> str:
        return self.manager.tasks(service)[0]["CurrentState"]

    def gpus(self, service: str) -> list[tuple[str, str, tuple[str, ...]]]:
        """Return, for each container of a service, its node, the resource it was given, and what it may open."""
        return sorted(
            (node.name, *node.environment(container).values(), tuple(node.gpu_nodes(container)))
            for node, container in self.containers(service)
        )


@pytest.fixture(scope="module")
def joined(
    make_node: Callable[..., Node],
    start_manager: Callable[[Node], Node],
    start_worker: Callable[[Node, Node], Node],
) -> Swarm:
    """Return both nodes, joined by a cable and labelled."""
    manager, worker = make_node("one", "mi210-4", "10.99.8.1"), make_node("two", "mi300x-8", "10.99.8.2")
    manager.connect(worker)
    for node in (manager, worker):
        prepared = node.set_up("--vram", "--also-by-model")
        assert (prepared.returncode, prepared.stderr) == (0, "")
    start_manager(manager)
    start_worker(worker, manager)
    assert manager.set_up("--vram", "--also-by-model", "--labels").returncode == 0
    *_, command = worker.set_up("--vram", "--also-by-model").stdout.splitlines()
    manager(*command.split()[1:-1], "two")
    return Swarm(manager, worker)


def uuids(node: Node) -> list[str]:
    return [gpu["uuid"] for gpu in json.loads(node.amd_ctk("gpu", "list", "--json").stdout)["gpus"]]


def render_nodes(node: Node) -> list[str]:
    gpus = json.loads(node.amd_ctk("gpu", "list", "--json").stdout)["gpus"]
    return [gpu["render_node"]["path"] for gpu in gpus]


def test_twelve_replicas_have_the_twelve_gpus_of_both_nodes(swarm: Swarm) -> None:
    swarm.manager.create_service("all", "--replicas=13", "--generic-resource=AMD_GPU=1")
    swarm.manager.wait_for_running("all", 12)

    assert swarm.gpus("all") == sorted(
        (node.name, uuid, (path,)) for node in swarm for uuid, path in zip(uuids(node), render_nodes(node), strict=True)
    )
    (waiting,) = [task for task in swarm.manager.tasks("all") if task["CurrentState"].startswith("Pending")]
    assert waiting["Error"] == "no suitable node (insufficient resources on 2 nodes)"


def test_a_service_chooses_a_model_by_kind_or_by_label(swarm: Swarm) -> None:
    swarm.manager.create_service("kind", "--replicas=2", "--generic-resource=MI300X=2")
    swarm.manager.create_service(
        "label", "--generic-resource=AMD_GPU=1", "--constraint=node.labels.amd.gpu.model==MI210"
    )
    swarm.manager.create_service("nowhere", "--constraint=node.labels.amd.gpu.gfx==gfx1100")
    swarm.manager.wait_for_running("kind", 2)
    swarm.manager.wait_for_running("label", 1)

    assert [(name, len(paths)) for name, _, paths in swarm.gpus("kind")] == [("two", 2), ("two", 2)]
    assert len({path for _, _, paths in swarm.gpus("kind") for path in paths}) == 4
    assert [name for name, _, _ in swarm.gpus("label")] == ["one"]
    assert swarm.manager.tasks("nowhere")[0]["CurrentState"].startswith("Pending")


def test_a_gpu_that_is_taken_by_its_model_is_not_given_by_its_general_kind(swarm: Swarm) -> None:
    swarm.manager.create_service("model", "--generic-resource=MI210=4")
    swarm.manager.wait_for_running("model", 1)
    (_, holder) = swarm.containers("model")[0]

    swarm.manager.create_service(
        "general", "--restart-condition=none", "--generic-resource=AMD_GPU=1", "--constraint=node.hostname==one"
    )

    error = swarm.manager.wait_for_error("general")
    assert f"is reserved as MI210 by container {holder}, not free as AMD_GPU" in error
    assert swarm.manager.running("model") == 1


def test_memory_is_placed_on_both_nodes(swarm: Swarm) -> None:
    swarm.manager.create_service("part", "--mode=global", "--generic-resource=VRAM=60000")
    swarm.manager.wait_for_running("part", 2)

    assert {
        node.name: (node.environment(container), len(node.gpu_nodes(container)))
        for node, container in swarm.containers("part")
    } == {name: (told("60000", name), 1) for name in ("one", "two")}


def told(mib: str, node: str) -> dict[str, str]:
    """Return what a task is told of its part of the memory, on the node with MI210 or that with MI300X."""
    totals = {"one": "65520", "two": "196592"}
    fractions = {
        ("60000", "one"): "0.9157",
        ("60000", "two"): "0.3052",
        ("16000", "one"): "0.2442",
        ("16000", "two"): "0.0813",
    }
    return {
        "DOCKER_RESOURCE_VRAM": mib,
        "AMD_VRAM_LIMIT_MB": mib,
        "AMD_VRAM_TOTAL_MB": totals[node],
        "AMD_VRAM_FRACTION": fractions[mib, node],
    }


def test_memory_beyond_both_budgets_stays_pending(swarm: Swarm) -> None:
    swarm.manager.create_service("huge", "--generic-resource=VRAM=2000000")

    def waiting() -> list[tuple[str, str]]:
        return [(task["CurrentState"].split()[0], task["Error"]) for task in swarm.manager.tasks("huge")]

    pending = [("Pending", "no suitable node (insufficient resources on 2 nodes)")]
    wait_until(lambda: waiting() == pending, lambda: f"{waiting()}")


def test_jobs_of_one_file_run_on_both_nodes_and_what_the_timer_runs_removes_them(swarm: Swarm, tmp_path: Path) -> None:
    parameters = tmp_path / "params.txt"
    parameters.write_text("10\n" * 13)
    jobs = [f"sweep-{line}" for line in range(1, 14)]

    submitted = swarm.manager.amd_ctk(
        "swarm", "submit", "sweep", "--gpus=1", f"--each={parameters}", IMAGE, "--", "sleep"
    )

    assert (submitted.returncode, submitted.stderr) == (0, "")
    assert submitted.stdout == "".join(f"Submitted {job}: 10\n" for job in jobs)
    wait_until(lambda: all(swarm.state_of(job).startswith("Complete") for job in jobs))
    assert {swarm.manager.tasks(job)[0]["Node"] for job in jobs} == {"one", "two"}
    (program, *words) = re.findall(r"^ExecStart=(.*)", PRUNE_UNIT.read_text(encoding="utf-8"), re.MULTILINE)[0].split()
    pruned = swarm.manager.amd_ctk(*words)
    assert (program, pruned.returncode, pruned.stderr) == ("/usr/bin/amd-ctk", 0, "")
    assert sorted(pruned.stdout.splitlines()) == sorted(f"Removed service {job} (complete)" for job in jobs)


def test_status_on_each_node_names_the_tasks_there(swarm: Swarm) -> None:
    swarm.manager.create_service("training", "--replicas=12", "--generic-resource=AMD_GPU=1")
    swarm.manager.wait_for_running("training", 12)

    named = {
        node.name: re.findall(r"(training\.[0-9]+) whole", node.amd_ctk("swarm", "status").stdout) for node in swarm
    }

    assert {name: len(tasks) for name, tasks in named.items()} == {"one": 4, "two": 8}
    assert sorted(named["one"] + named["two"]) == sorted(f"training.{slot}" for slot in range(1, 13))


def test_the_files_that_the_documentation_shows_can_be_deployed(swarm: Swarm, tmp_path: Path) -> None:
    swarm.make_network("gpu-tasks")
    pages = "".join((GUIDES / page).read_text(encoding="utf-8") for page in ("swarm.md", "swarm-memory.md"))
    text_by_name = dict(re.findall(r"```yaml\n# (\S+)\.yml\n(.*?)```", pages, re.DOTALL))
    assert sorted(text_by_name) == ["inference", "training"]
    for name, text in text_by_name.items():
        # What they run needs ROCm, and what ignores a polite end keeps a test waiting.
        command = re.sub(r"command: .*", "command: sleep 1000\n    stop_grace_period: 100ms", text)
        (tmp_path / name).write_text(command.replace("rocm/rocm-terminal", "busybox:local"))

    def deploy(name: str) -> None:
        swarm.manager("stack", "deploy", "--resolve-image=never", f"--compose-file={tmp_path / name}", name)

    deploy("training")
    deploy("inference")
    wait_until(lambda: [len(swarm.gpus(name)) for name in ("training_training", "inference_inference")] == [3, 4])
    whole = [path for *_, paths in swarm.gpus("training_training") for path in paths]
    assert len(whole) == 3
    limits = [(node.name, node.environment(container)) for node, container in swarm.containers("inference_inference")]
    assert limits == [(name, told("16000", name)) for name, _ in limits]
    assert len(limits) == 4


def test_tasks_on_both_nodes_reach_each_other(swarm: Swarm) -> None:
    swarm.make_network("between")
    # Without a virtual address, which needs IP_VS in the kernel.
    swarm.manager.create_service(
        "web", "--network=between", "--endpoint-mode=dnsrr", "--mode=global", "--generic-resource=AMD_GPU=1",
        command=("sh", "-c", "mkdir /www; hostname >/www/index.html; exec httpd -f -p 80 -h /www"),
    )  # fmt: skip
    swarm.manager.wait_for_running("web", 2)

    def fetch(node: Node, container: str, other: str) -> str:
        words = ("exec", container, "timeout", "10", "wget", "-q", "-O-", f"http://{other}/")
        return node(*words, check=False).stdout.strip()

    names = [container[:12] for _, container in swarm.containers("web")]
    for node, container in swarm.containers("web"):
        # A task runs before gossip has told the other node its name and address.
        wait_until(
            lambda node=node, container=container: [fetch(node, container, name) for name in names] == names,
            lambda node=node: f"{node.name} does not reach all of {names}",
        )
    assert sorted(node.name for node, _ in swarm.containers("web")) == ["one", "two"]


def test_a_node_that_leaves_takes_its_gpus_along_and_brings_them_back(swarm: Swarm) -> None:
    swarm.manager.create_service("gpus", "--replicas=12", "--generic-resource=AMD_GPU=1")
    swarm.manager.wait_for_running("gpus", 12)

    swarm.worker.halt()

    def on_manager_only() -> bool:
        wanted = [task for task in swarm.manager.tasks("gpus") if task["DesiredState"] == "Running"]
        running = [task for task in wanted if task["CurrentState"].startswith("Running") and task["Node"] == "one"]
        waiting = [task for task in wanted if task["CurrentState"].startswith("Pending")]
        return (len(running), len(waiting)) == (4, 8)

    wait_until(on_manager_only, lambda: f"{swarm.manager.tasks('gpus')}")

    swarm.worker.start()

    wait_until(lambda: (len(swarm.manager.containers("gpus")), len(swarm.worker.containers("gpus"))) == (4, 8))
    resources = [resource for _, resource, _ in swarm.gpus("gpus")]
    assert sorted(resources) == sorted([*uuids(swarm.manager), *uuids(swarm.worker)])


def test_a_drained_node_runs_nothing_until_it_is_active_again(swarm: Swarm) -> None:
    swarm.manager.create_service("gpus", "--replicas=5", "--generic-resource=AMD_GPU=1")
    swarm.manager.wait_for_running("gpus", 5)

    swarm.manager("node", "update", "--availability=drain", "two")
    wait_until(lambda: (len(swarm.manager.containers("gpus")), swarm.worker.containers("gpus")) == (4, []))
    swarm.manager("node", "update", "--availability=active", "two")

    wait_until(lambda: len(swarm.worker.containers("gpus")) == 1)
    assert len({resource for _, resource, _ in swarm.gpus("gpus")}) == 5
