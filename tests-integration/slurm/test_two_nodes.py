"""Jobs over two nodes: four MI210, and eight MI300X of which the first two are renderD128 and 136."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from support.slurm_box import SlurmBox, gpus_in

pytestmark = [pytest.mark.e2e, pytest.mark.slurm]


@pytest.fixture(scope="module", params=["trixie"])
def cluster(request: pytest.FixtureRequest, make_node: Callable[..., SlurmBox]) -> tuple[SlurmBox, SlurmBox]:
    """Return both nodes, of which the first is the controller."""
    first = make_node(request.param)
    second = make_node(request.param, "mi300x-8", number=2)
    connect(first, second)
    for box in (first, second):
        box.write("/etc/hosts", b"10.99.9.1 n1\n10.99.9.2 n2\n")
        box.configure(first.gres, second.gres)
        box.start_slurm()
    first.wait_until("srun", "--quiet", "--nodes=2", "--gres=gpu:4", "--immediate=5", "/bin/true")
    return first, second


def connect(*boxes: SlurmBox) -> None:
    """Join two boxes by a cable; it is gone with either of them."""
    ends = [("slurm0", "netns", f"{box.pid}") for box in boxes]
    subprocess.run(["ip", "link", "add", *ends[0], "type", "veth", "peer", "name", *ends[1]], check=True)
    for box in boxes:
        box("ip", "address", "add", f"{box.address}/24", "dev", "slurm0")
        box("ip", "link", "set", "slurm0", "up")


def test_a_job_on_two_nodes_has_the_gpus_of_each(cluster: tuple[SlurmBox, SlurmBox]) -> None:
    answer = cluster[0].srun("--nodes=2", "--label", "/bin/list-gpus", gpus=2)

    by_task = {task: [line for line in answer.stdout.splitlines() if line.startswith(f"{task}:")] for task in (0, 1)}
    assert gpus_in("\n".join(by_task[0])) == ["renderD130", "renderD131"]
    assert gpus_in("\n".join(by_task[1])) == ["renderD128", "renderD136"]


def test_a_type_chooses_the_node(cluster: tuple[SlurmBox, SlurmBox]) -> None:
    words = ("srun", "--quiet", "--gres=gpu:mi300x:8", "--container=/box/bundle", "/bin/list-gpus")

    assert len(gpus_in(cluster[0](*words).stdout)) == 8
