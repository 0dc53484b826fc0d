"""Draining GPUs, as far as other programs than the tracker give them out."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from amdgpu_discovery.numbering import locate_gpus
from support.enabled_tracker import enable

NODE = os.uname().nodename.partition(".")[0]


@pytest.fixture
def made(host):
    """Return four MI210 with the tracker enabled."""
    made = host()
    enable(made)
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

    swarm = "Run 'sudo amd-ctk swarm setup' again and restart Docker, so that Swarm plans with the current GPUs\n"
    known = f"Slurm can drain only whole nodes: scontrol update NodeName={NODE} "
    assert drained.stderr == swarm + known + "State=DRAIN Reason='fan'\"'\"'s swap'\n"
    assert undrained.stderr == swarm + known + "State=RESUME\n"


def test_a_node_that_has_left_the_swarm_needs_nothing(made, amd_ctk):
    swarm = Path(made.path("/var/lib/docker/swarm"))
    swarm.mkdir(parents=True)
    (swarm / "docker-state.json").write_text('{"LocalAddr":"127.0.0.1"}')
    amd_ctk("swarm", "setup", "--no-validate")
    assert "so that Swarm plans with the current GPUs\n" in amd_ctk("gpu-tracker", "drain", "1").stderr

    (swarm / "docker-state.json").unlink()

    assert amd_ctk("gpu-tracker", "undrain", "1").stderr == ""


def test_the_swarm_of_a_docker_with_another_data_root_is_found_there(made, amd_ctk):
    Path(made.path("/etc/docker")).mkdir(parents=True, exist_ok=True)
    Path(made.path("/etc/docker/daemon.json")).write_text('{"data-root": "/srv/docker"}')
    Path(made.path("/srv/docker/swarm")).mkdir(parents=True)
    amd_ctk("swarm", "setup", "--no-validate")

    assert amd_ctk("gpu-tracker", "drain", "1").stderr == ""


def test_a_swarm_is_not_told_of_a_drained_gpu(made, amd_ctk):
    amd_ctk("gpu-tracker", "drain", "1,3")

    answer = amd_ctk("swarm", "setup", "--no-validate")

    assert "not advertised, because drained or sick: GPU 1, 3\n" in answer.stderr
    advertised = json.loads(Path(made.path("/etc/docker/daemon.json")).read_text())["node-generic-resources"]
    assert advertised == ["AMD_GPU=0xEA35F57CC80DEB35", "AMD_GPU=0x6E32F10EFC982B4C"]


def test_where_nothing_is_tracked_a_drain_refuses_nothing_and_says_so(host, amd_ctk):
    host()

    assert amd_ctk("gpu-tracker", "drain", "1").stderr == (
        "the GPU Tracker is disabled, so no container is refused: run 'sudo amd-ctk gpu-tracker enable'\n"
    )


@pytest.fixture
def with_a_sick_gpu(made):
    """Return the host with GPU 1 given up by its driver, which root has not seen yet."""
    address = locate_gpus(made)[1].pci_address
    busy = Path(made.path(f"/sys/module/amdgpu/drivers/pci:amdgpu/{address}/gpu_busy_percent"))
    busy.unlink(missing_ok=True)
    # Reading memory of a process where nothing is mapped ends with EIO.
    busy.symlink_to("/proc/self/mem")
    return made


@pytest.mark.parametrize("look", [("status",), ("top",), ("doctor",), ("gpu", "list", "--wide"), ("usage", "sample")])
def test_every_list_that_root_prints_makes_starts_refuse_a_sick_gpu(with_a_sick_gpu, amd_ctk, look):
    amd_ctk(*look)

    refused = amd_ctk("run", "--gpus=1", "--", "true")
    assert "GPU 1 is sick since 20" in refused.stderr
    assert ": reading gpu_busy_percent ends with an I/O error (" in refused.stderr
    assert "GPU 1 is sick: reading gpu_busy_percent ends with an I/O error" in amd_ctk("gpu-tracker", "status").stderr


def test_a_setting_gives_sick_gpus_out_at_once_and_keeps_them_at_once(with_a_sick_gpu, amd_ctk):
    amd_ctk("status")
    amd_ctk("config", "set", "allow-sick-gpus", "yes")
    assert amd_ctk("run", "--gpus=1", "--", "echo", "given").stdout == "given\n"

    amd_ctk("config", "unset", "allow-sick-gpus")
    assert "GPU 1 is sick" in amd_ctk("run", "--gpus=1", "--", "true").stderr


def test_explain_says_that_a_sick_gpu_is_refused(with_a_sick_gpu, amd_ctk):
    Path(with_a_sick_gpu.path("/etc/docker")).mkdir(parents=True)
    daemon = {"runtimes": {"amd": {"path": "/usr/bin/amd-container-runtime"}}}
    Path(with_a_sick_gpu.path("/etc/docker/daemon.json")).write_text(json.dumps(daemon))
    amd_ctk("status")

    told = amd_ctk("explain", "docker", "run", "--runtime=amd", "-e", "AMD_VISIBLE_DEVICES=1", "x").stdout

    assert "GPU 1 is sick since 20" in told


@pytest.mark.needs("root")
def test_explain_says_what_the_hook_of_a_cdi_device_refuses(made, amd_ctk):
    amd_ctk("cdi", "generate")
    amd_ctk("gpu-tracker", "drain", "1", "--reason=fan swap")
    Path(made.path("/etc/docker")).mkdir(parents=True)
    Path(made.path("/etc/docker/daemon.json")).write_text(json.dumps({"features": {"cdi": True}}))

    drained = amd_ctk("explain", "docker", "run", "--device=amd.com/gpu=1", "x").stdout
    other = amd_ctk("explain", "docker", "run", "--device=amd.com/gpu=0", "x").stdout

    assert "The container does not start:\n  GPU 1 is drained: fan swap (" in drained
    assert "does not start" not in other


def test_a_swarm_is_not_told_of_a_sick_gpu(with_a_sick_gpu, amd_ctk):
    amd_ctk("status")

    answer = amd_ctk("swarm", "setup", "--no-validate")

    assert "not advertised, because drained or sick: GPU 1\n" in answer.stderr


def test_gpus_may_be_written_with_spaces_between_them(made, amd_ctk):
    assert amd_ctk("gpu-tracker", "drain", "1", "2").stdout == "GPUs [1 2] are drained\n"
    assert amd_ctk("gpu-tracker", "undrain", "1", "2").stdout == "GPUs [1 2] are given out again\n"
