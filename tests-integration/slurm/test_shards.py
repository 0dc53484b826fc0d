"""Shards: Slurm gives a part of one GPU to each of several jobs, and the GPU Tracker sees containers that share it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from support.slurm_box import BUNDLE, SlurmBox, gpus_in

pytestmark = [pytest.mark.e2e, pytest.mark.slurm]


@pytest.fixture(scope="module")
def node(make_node: Callable[..., SlurmBox]) -> SlurmBox:
    """Return a cluster of one node with four MI210, each of which is two shards."""
    box = make_node("trixie")
    box.configure(f"{box.gres.replace('gpu:mi210:4', 'gpu:mi210:4,shard:8')}NodeName=n1 Name=shard Count=8\n")
    box("sed", "-i", "s/^GresTypes=gpu$/GresTypes=gpu,shard/", "/etc/slurm/slurm.conf")
    box.start_slurm()
    box.wait_until("srun", "--quiet", "--gres=shard:1", "--immediate=5", "/bin/true")
    return box


def in_shard(*words: str) -> list[str]:
    return ["srun", "--quiet", "--gres=shard:1", f"--container={BUNDLE}", *words]


@pytest.fixture
def first(node: SlurmBox) -> Iterator[SlurmBox]:
    """Return the node on which a container has a shard of GPU 0, until the test ends."""
    node(
        "sbatch", "--quiet", "--gres=shard:1", "--chdir=/", f"--wrap=srun --quiet --container={BUNDLE} /bin/sleep 4713"
    )
    node.wait_until("pgrep", "--full", "--exact", "/bin/sleep 4713")
    yield node
    node("scancel", "--user=root")
    node("pkill", "--signal=KILL", "--full", "--exact", "/bin/sleep 4713", check=False)
    node.wait_until("sh", "-c", '[ -z "$(squeue --noheader)" ]')
    node("amd-ctk", "gpu-tracker", "disable")


def test_a_container_has_the_whole_gpu_of_its_shard(node: SlurmBox) -> None:
    assert gpus_in(node(*in_shard("/bin/list-gpus")).stdout) == ["renderD130"]


def test_containers_of_two_shards_share_a_shared_gpu(first: SlurmBox) -> None:
    assert gpus_in(first(*in_shard("/bin/list-gpus")).stdout) == ["renderD130"]


def test_a_second_shard_of_an_exclusive_gpu_is_refused(node: SlurmBox, request: pytest.FixtureRequest) -> None:
    node("amd-ctk", "gpu-tracker", "enable")
    node("amd-ctk", "gpu-tracker", "0", "exclusive")
    request.getfixturevalue("first")

    answer = node(*in_shard("/bin/list-gpus"), check=False)

    assert "GPUs [0] are exclusive and already in use" in answer.stderr
    assert (gpus_in(answer.stdout), answer.returncode != 0) == ([], True)
