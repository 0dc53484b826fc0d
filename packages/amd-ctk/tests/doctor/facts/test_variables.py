"""Of which job a container is, by its own environment or that of the process above it."""

from __future__ import annotations

import pytest

from amd_ctk.doctor.facts.inside import read_variables
from amd_gpu_tracker.leases.processes import Processes


@pytest.fixture
def container(tmp_path):
    """Return a function that gives the variables of process 7, which process 6 has started."""

    def read(own, above):
        for pid, parent, variables in ((7, 6, own), (6, 1, above)):
            (tmp_path / f"{pid}").mkdir()
            (tmp_path / f"{pid}/stat").write_text(f"{pid} (x) S {parent} {'0 ' * 17}100 0 0")
            (tmp_path / f"{pid}/environ").write_text("".join(f"{variable}\0" for variable in variables))
        found = read_variables(7, Processes(str(tmp_path)))
        return {name: value for name, value in found.items() if value}

    return read


def test_the_containers_own_job_counts_before_the_one_above(container):
    own, above = ["SLURM_STEP_GPUS=0", "HOME=/root"], ["SLURM_JOB_GPUS=0,1"]

    assert container(own, above) == {"SLURM_STEP_GPUS": "0", "HOME": "/root"}


def test_a_container_of_podman_is_of_the_job_of_conmon(container):
    above = ["SLURM_JOB_GPUS=0,1", "SLURMD_NODENAME=n1", "HOME=/home/u1", "HIP_VISIBLE_DEVICES=7"]

    assert container(["HOME=/root"], above) == {
        "HOME": "/root",
        "SLURM_JOB_GPUS": "0,1",
        "SLURMD_NODENAME": "n1",
    }


def test_a_container_of_a_daemon_is_of_no_job(container):
    assert container(["PATH=/bin"], ["PATH=/usr/bin"]) == {}


def test_a_variable_of_rocm_that_is_set_and_empty_is_distinguished_from_one_that_is_not_set(tmp_path, container):
    own = [
        "HIP_VISIBLE_DEVICES=",
        "HSA_OVERRIDE_GFX_VERSION_1=",
        "XHIP_VISIBLE_DEVICES=1",
        "HSA_OVERRIDE_GFX_VERSION=1.2",
    ]
    container(own, [])

    assert {
        name: value for name, value in read_variables(7, Processes(str(tmp_path))).items() if "SLURM" not in name
    } == {
        "HOME": "",
        "HIP_VISIBLE_DEVICES": "",
        "HSA_OVERRIDE_GFX_VERSION": "1.2",
        "HSA_OVERRIDE_GFX_VERSION_1": "",
    }
