"""The variables by which ROCm would choose a second time."""

from __future__ import annotations

import pytest

from amd_device_spec.settings import Settings
from amd_device_spec.slurm.filters import remove_filters
from amd_device_spec.slurm_job import parse_job

JOB = parse_job({"SLURM_STEP_GPUS": "2,3"})


def left(*environment, job=JOB, settings=None):
    spec = {"process": {"env": list(environment)}}
    assert remove_filters(spec, job, settings or Settings()) is (len(spec["process"]["env"]) < len(environment))
    return spec["process"]["env"]


@pytest.mark.parametrize(
    "name", ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "CUDA_VISIBLE_DEVICES"]
)
@pytest.mark.parametrize("value", ["2,3", "0,1"])
def test_what_slurm_writes_is_taken_out(name, value):
    assert left("PATH=/bin", f"{name}={value}", "A=2,3") == ["PATH=/bin", "A=2,3"]


@pytest.mark.parametrize("value", ["0", "1", "3", "", "GPU-08da82c12ef81b5d", "2,3,4"])
def test_what_the_user_writes_stays(value):
    assert left(f"ROCR_VISIBLE_DEVICES={value}") == [f"ROCR_VISIBLE_DEVICES={value}"]


def test_a_setting_keeps_them():
    keeping = Settings(slurm_filters="keep")

    assert left("ROCR_VISIBLE_DEVICES=2,3", settings=keeping) == ["ROCR_VISIBLE_DEVICES=2,3"]


def test_a_job_without_gpus_has_nothing_to_take_out():
    assert left("ROCR_VISIBLE_DEVICES=0", job=parse_job({"SLURM_JOB_ID": "7"})) == ["ROCR_VISIBLE_DEVICES=0"]
