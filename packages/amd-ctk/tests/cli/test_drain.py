"""Draining GPUs, as far as other programs than the tracker give them out."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from amd_gpu_tracker import Tracker

NODE = os.uname().nodename.partition(".")[0]


@pytest.fixture
def made(host):
    """Return four MI210 with the tracker enabled."""
    made = host()
    Tracker(made).enable()
    return made


def test_a_host_that_only_docker_uses_needs_nothing_else(made, amd_ctk):
    answer = amd_ctk("gpu-tracker", "drain", "1")

    assert (answer.stdout, answer.stderr) == ("GPUs [1] are drained\n", "")


def test_slurm_and_swarm_are_told_by_the_administrator(made, amd_ctk):
    slurm = Path(made.path("/etc/slurm/gres.conf"))
    slurm.parent.mkdir(parents=True)
    slurm.write_text("Name=gpu File=/dev/dri/renderD[128-131]\n")
    amd_ctk("swarm", "setup", "--no-validate")

    drained = amd_ctk("gpu-tracker", "drain", "1", "--reason", "fan's swap")
    undrained = amd_ctk("gpu-tracker", "undrain", "1")

    swarm = "Run 'amd-ctk swarm setup' again and restart Docker to bring what Swarm plans with in step\n"
    known = f"Slurm knows whole nodes only: scontrol update NodeName={NODE} "
    assert drained.stderr == swarm + known + "State=DRAIN Reason='fan'\"'\"'s swap'\n"
    assert undrained.stderr == swarm + known + "State=RESUME\n"


def test_a_swarm_is_not_told_of_a_drained_gpu(made, amd_ctk):
    amd_ctk("gpu-tracker", "drain", "1,3")

    answer = amd_ctk("swarm", "setup", "--no-validate")

    assert "not advertised, because drained: GPU 1, 3\n" in answer.stderr
    advertised = json.loads(Path(made.path("/etc/docker/daemon.json")).read_text())["node-generic-resources"]
    assert advertised == ["AMD_GPU=0xEA35F57CC80DEB35", "AMD_GPU=0x6E32F10EFC982B4C"]


def test_where_nothing_is_tracked_a_drain_refuses_nothing_and_says_so(host, amd_ctk):
    host()

    assert amd_ctk("gpu-tracker", "drain", "1").stderr == (
        "the GPU Tracker is disabled, so no container is refused: run 'amd-ctk gpu-tracker enable'\n"
    )
