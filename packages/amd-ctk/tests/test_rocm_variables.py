"""What ROCm makes of its variables, compared with its sources for thousands of environments."""

from __future__ import annotations

import pytest

from amd_ctk.rocm_variables import see_gpus
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.tables.targets import parse_override
from amdgpu_simulator import build_host
from support.rocm_sources import VERSIONS, hip_order, make_environments, reads_version

HIP, ROCR, CUDA = "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"
OPENCL, OVERRIDE = "GPU_DEVICE_ORDINAL", "HSA_OVERRIDE_GFX_VERSION"
NEWER = "; newer releases of HIP hide everything: leave it out"
TWO = "the container sees 2 GPUs, which HIP counts 0-1"


@pytest.fixture
def gpus(tmp_path):
    """GPUs 2 and 3 of four MI210, of which KFD lists GPU 3 first."""
    return locate_gpus(build_host(tmp_path / "host", "mi210-4", bare=True))[2:]


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
        ({HIP: ""}, [3, 2], {HIP: f"hides nothing: {TWO}{NEWER}"}),
        (
            {HIP: "", CUDA: "1"},
            [2],
            {HIP: f"hides nothing: {TWO}{NEWER}", CUDA: f"leaves GPU 2 of this host: {TWO}"},
        ),
        ({ROCR: ""}, [], {ROCR: f"hides everything: {TWO.replace('HIP', 'ROCm')}"}),
        ({HIP: "1,1,0"}, [2, 3], {HIP: f"hides nothing: {TWO}"}),
        ({ROCR: "1,1,0"}, [2], {ROCR: f"leaves GPU 2 of this host: {TWO.replace('HIP', 'ROCm')}"}),
        ({HIP: '"1"'}, [2], {HIP: f"leaves GPU 2 of this host: {TWO}"}),
        (
            {HIP: "GPU-6e32f10efc982b4c"},
            [2],
            {HIP: f"leaves GPU 2 of this host: {TWO}; earlier releases of HIP know no ids, and hide everything"},
        ),
        (
            {OPENCL: "1"},
            [3, 2],
            {
                OPENCL: "counts for OpenCL only: leaves GPU 2 of this host: the container sees 2 GPUs, which it"
                " counts 0-1"
            },
        ),
        ({OVERRIDE: "11.0.0"}, [3, 2], {OVERRIDE: "makes ROCm take every GPU inside for gfx1100"}),
        # The host has one processor: GPU 3 is node 1 inside.
        ({f"{OVERRIDE}_1": "11.0.0"}, [3, 2], {f"{OVERRIDE}_1": "makes ROCm take GPU 3 for gfx1100, since ROCm 6.2"}),
        ({f"{OVERRIDE}_0": ""}, [3, 2], {f"{OVERRIDE}_0": "is read for no GPU of the container"}),
        (
            {f"{OVERRIDE}_2": "", OVERRIDE: "9.0.0"},
            [],
            {
                f"{OVERRIDE}_2": "is not a version: ROCm lists no GPU",
                OVERRIDE: "makes ROCm take GPU 3 for gfx900",
            },
        ),
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
def test_the_gpus_that_are_left_are_counted_in_kfds_order(gpus, environment, numbers, words):
    inside = see_gpus(gpus, environment)

    assert [gpu.number for gpu in inside.hip_gpus] == numbers
    assert inside.effect_by_variable == words


def test_a_container_without_gpus_hides_nothing():
    assert see_gpus([], {HIP: "0"}).effect_by_variable == {HIP: "hides nothing: the container has no GPU"}


@pytest.mark.parametrize("profile", ["mi210-4", "rx7900xtx-raphael", "mi300x-8-cpx", "one-gpu"])
def test_thousands_of_environments_are_read_as_by_the_sources(tmp_path, profile):
    located = locate_gpus(build_host(tmp_path / "host", profile, bare=True))[:4]
    gpus = [(gpu.kfd_node, gpu.kfd_unique_id) for gpu in located]
    wrong = []

    for environment in make_environments(20, 4000, [unique for _, unique in gpus]):
        seen = [gpu.kfd_node for gpu in see_gpus(located, environment, processors=2).hip_gpus]
        if seen != hip_order(gpus, environment, 2):
            wrong.append((environment, seen))

    assert wrong == []


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_is_read_as_by_sscanf(version):
    assert bool(parse_override(version)) == reads_version(version)


def test_only_what_rocm_reads_is_a_version():
    assert [version for version in VERSIONS if reads_version(version)] == [
        "11.0.0",
        " 11.0.0",
        "11.0.00",
        "63.255.255",
        "+11.0.0",
        "11.-0.0",
        "11. 0. 0",
        "4294967307.0.0",
        "-4294967285.0.0",
        "011.0.0",
        "10.3.0",
    ]
