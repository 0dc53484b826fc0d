"""Containers that Slurm starts, whose environment is that of the job."""

from __future__ import annotations

import json
import os

import pytest

from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_simulator import hide_gpus

GRES = "".join(f"NodeName=n1 Name=gpu Type=mi210 File=/dev/dri/renderD{minor}\n" for minor in (130, 131, 129, 128))
JOB = ("SLURM_JOB_ID=7", "SLURMD_NODENAME=n1", "SLURM_JOB_GPUS=0,1,2,3", "SLURM_STEP_GPUS=2,3")


@pytest.fixture
def node(runtime):
    """Return the runtime on a node of Slurm that hands out the four MI210."""
    os.makedirs(runtime.host.path("/etc/slurm"))
    with open(runtime.host.path("/etc/slurm/gres.conf"), "w", encoding="utf-8") as file:
        file.write(GRES)
    return runtime


def create_in_a_job(runtime):
    """Create where files that nobody may read are closed to root as well."""
    limit = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
    return runtime.run("create", "--bundle", runtime.bundle, "c1", under=limit)


def nodes(runtime):
    paths = [device["path"] for device in runtime.config.get("linux", {}).get("devices", [])]
    return [path for path in paths if "renderD" in path]


def test_a_container_has_the_gpus_of_its_step(node):
    node.write_config(*JOB, "ROCR_VISIBLE_DEVICES=2,3", "HIP_VISIBLE_DEVICES=1")

    assert node.create().returncode == 0

    assert sorted(nodes(node)) == ["/dev/dri/renderD128", "/dev/dri/renderD129"]
    # The second is the user's, who counts the GPUs of the container.
    assert node.config["process"]["env"] == ["PATH=/bin", *JOB, "HIP_VISIBLE_DEVICES=1"]


def test_a_second_create_of_the_same_bundle_changes_nothing(node):
    node.write_config(*JOB, "ROCR_VISIBLE_DEVICES=2,3")
    node.create()
    first = node.config

    assert node.create().returncode == 0

    assert node.config == first


def test_a_setting_keeps_the_second_filter(node):
    node.configure(slurm_filters="keep")
    node.write_config(*JOB, "ROCR_VISIBLE_DEVICES=2,3")

    assert node.create().returncode == 0

    assert "ROCR_VISIBLE_DEVICES=2,3" in node.config["process"]["env"]


def test_a_gpu_of_another_job_is_refused(node):
    node.write_config(*JOB, "AMD_VISIBLE_DEVICES=0")

    assert node.create().returncode == 4

    assert node.reported[-1]["msg"] == (
        "amd-container-runtime: AMD_VISIBLE_DEVICES=0: GPU 0 is not among the GPUs this process may use (2, 3)"
        " (Slurm gave this job 2, 3)"
    )
    assert node.runc_words is None


def test_a_gpu_that_the_device_cgroup_hides_is_never_given(node):
    hide_gpus(node.host, (0, 1, 2))
    node.write_config(*JOB)

    assert create_in_a_job(node).returncode == 0

    assert nodes(node) == ["/dev/dri/renderD128"]


def test_under_the_tracker_a_job_reserves_its_own_gpus_only(node):
    tracker = Tracker(node.host)
    tracker.enable()
    tracker.set_accessibility("all", exclusive=True)
    hide_gpus(node.host, (0, 1))
    node.write_config(*JOB, "AMD_VISIBLE_DEVICES=all")

    assert create_in_a_job(node).returncode == 0

    assert sorted(nodes(node)) == ["/dev/dri/renderD128", "/dev/dri/renderD129"]
    [lease] = node.leases()
    assert json.loads(lease.read_text())["gpus"] == ["0000:43:00.0/0", "0000:63:00.0/0"]
