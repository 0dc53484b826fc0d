"""The variables by which ROCm filters GPUs once more."""

from __future__ import annotations

import pytest

from amd_ctk.explain.rocm_inside import apply_filters
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.simulate import build_host

HIP, ROCR, CUDA = "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"
TWO = "the container sees 2 GPUs, which HIP counts 0-1"


@pytest.fixture
def gpus(tmp_path):
    """GPUs 2 and 3 of four MI210, of which KFD lists GPU 3 first."""
    return locate_gpus(build_host(tmp_path / "host", "mi210-4", with_links=False))[2:]


@pytest.mark.parametrize(
    ("environment", "numbers", "words"),
    [
        ({}, [3, 2], {}),
        ({HIP: "2"}, [], {HIP: f"hides everything: {TWO}"}),
        ({HIP: "0"}, [3], {HIP: f"leaves GPU 3 of this host: {TWO}"}),
        ({HIP: "1,0"}, [2, 3], {HIP: f"hides nothing: {TWO}"}),
        ({HIP: "0,7,1"}, [3], {HIP: f"leaves GPU 3 of this host: {TWO}"}),
        ({CUDA: "1"}, [2], {CUDA: f"leaves GPU 2 of this host: {TWO}"}),
        ({CUDA: "", HIP: "0,1"}, [3, 2], {HIP: f"hides nothing: {TWO}", CUDA: f"not counted: {HIP} is set"}),
        (
            {ROCR: "GPU-6e32f10efc982b4c", HIP: "1"},
            [],
            {
                ROCR: "leaves GPU 2 of this host: the container sees 2 GPUs, which ROCm counts 0-1",
                HIP: "hides everything: the container sees one GPU, which HIP counts 0",
            },
        ),
    ],
)
def test_what_is_left_is_counted_in_kfds_order(gpus, environment, numbers, words):
    inside = apply_filters(gpus, environment)

    assert [gpu.number for gpu in inside.hip_gpus] == numbers
    assert inside.effect_by_variable == words


def test_a_container_without_gpus_hides_nothing():
    assert apply_filters([], {HIP: "0"}).effect_by_variable == {HIP: "hides nothing: the container has no GPU"}
