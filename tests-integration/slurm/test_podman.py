"""Podman in the jobs of an array, which has no part in Slurm: a job names its GPUs, or hands on what Slurm says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.cdi_engines import PodmanInBox
from support.slurm_box import SlurmBox

pytestmark = [pytest.mark.e2e, pytest.mark.slurm]

# Each job has its GPU for itself from the time when its container says which it is until the job ends.
ARRAY = """#!/bin/sh
export PODMAN_IGNORE_CGROUPSV1_WARNING=1
run() { podman --cgroup-manager=cgroupfs --events-backend=file --storage-driver=vfs "$@"; }
gpu=$(run WORDS busybox:local list-gpus | grep -o 'renderD[0-9]*')
echo "$gpu" >>/box/array/given
mkdir "/box/array/$gpu" || echo "$gpu" >>/box/array/conflicts
sleep 0.3
rmdir "/box/array/$gpu"
"""
BY_CDI = "--runtime=crun run --rm --network=none --device=amd.com/gpu=$SLURM_JOB_GPUS"
BY_RUNTIME = (
    "--runtime=/usr/bin/amd-container-runtime run --rm --network=none --env='SLURM*' --env=AMD_VISIBLE_DEVICES=all"
)


@pytest.fixture(scope="module", params=["trixie"])
def node(request: pytest.FixtureRequest, make_node: Callable[..., SlurmBox], image_archive: Path) -> SlurmBox:
    """Return a cluster of one node with four MI210 and Podman."""
    box = make_node(request.param, podman=True)
    (box.share / "image.tar").write_bytes(image_archive.read_bytes())
    PodmanInBox(box)
    box("amd-ctk", "cdi", "generate")
    box.configure(box.gres)
    box.start_slurm()
    box.wait_until("srun", "--quiet", "--gres=gpu:4", "--immediate=5", "/bin/true")
    return box


@pytest.mark.parametrize("words", [BY_CDI, BY_RUNTIME], ids=["cdi", "runtime"])
def test_podman_in_an_array_of_twenty_jobs_never_shares_one_of_four_gpus(node: SlurmBox, words: str) -> None:
    node("rm", "--recursive", "--force", "/box/array")
    (node.share / "array").mkdir()
    (node.share / "array.sh").write_text(ARRAY.replace("WORDS", words))

    node("sbatch", "--wait", "--quiet", "--array=1-20", "--gres=gpu:1", "--output=/box/array/%a.out", "/box/array.sh")

    said = [path.read_text() for path in (node.share / "array").glob("*.out")]
    assert said == [""] * 20
    given = (node.share / "array/given").read_text().split()
    assert len(given) == 20
    assert set(given) == {"renderD128", "renderD129", "renderD130", "renderD131"}
    assert not (node.share / "array/conflicts").exists()
