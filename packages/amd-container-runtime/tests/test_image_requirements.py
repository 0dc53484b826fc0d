"""What an image requires is checked before its container is made, against the GPUs that it gets."""

from __future__ import annotations

import pytest

from amd_gpu_tracker.face.tracker import Tracker

GRANTED = "amd-container-runtime Requested GPUs for container"
ANYWAY = "(AMD_DISABLE_REQUIRE=true starts it anyway)"
WRONG_DRIVER = "AMD_REQUIRE_ROCM=rocm>=7.0"
WRONG_GPU = "AMD_REQUIRE_GFX=gfx=gfx942"
# GPU 0 of four MI210.
GIVEN = {"devices": [{"path": "/dev/dri/renderD130", "type": "c", "major": 226, "minor": 130}]}


def test_an_image_that_fits_starts(runtime):
    runtime.write_config("AMD_VISIBLE_DEVICES=0-1", "AMD_REQUIRE_GFX=gfx=gfx90a", "AMD_REQUIRE_ALL=gpus=2,vram>=60GiB")

    answer = runtime.create()

    assert (answer.returncode, answer.stderr) == (0, "")
    assert runtime.own_log == [
        'level=INFO msg="amd-container-runtime Requested GPUs for container" gpu_indices="[0 1]" container=c1'
    ]


@pytest.mark.parametrize(
    ("requirement", "words"),
    [
        (WRONG_GPU, "GPU 0 is gfx90a"),
        (WRONG_DRIVER, "the amdgpu driver 6.10.5 is tested with ROCm 6.1 to 6.4"),
        ("AMD_REQUIRE_ALL=gpus>=2", "the container gets 1 GPU"),
        (
            "AMD_REQUIRE_ARCH=arch=cdna3",
            "there is no property 'arch'; the properties are cpu, driver, gfx, gpus, kernel, partition, rocm, vram",
        ),
    ],
)
def test_an_image_that_does_not_fit_is_refused_and_nothing_is_done(runtime, requirement, words):
    Tracker(runtime.host).enable()
    runtime.write_config("AMD_VISIBLE_DEVICES=0", requirement)
    before = runtime.config

    answer = runtime.create()

    sentence = f"{requirement}: {words} {ANYWAY}"
    assert (answer.returncode, answer.stderr) == (10, f"amd-container-runtime: {sentence}\n")
    assert [line["msg"] for line in runtime.reported] == [f"amd-container-runtime: {sentence}"]
    assert runtime.config == before
    assert runtime.leases() == []
    assert runtime.runc_words is None
    assert runtime.files() == ["config.json"]


def test_a_user_starts_it_anyway(runtime):
    runtime.write_config("AMD_VISIBLE_DEVICES=0", WRONG_GPU, "AMD_DISABLE_REQUIRE=true")

    assert runtime.create().returncode == 0


def test_without_gpus_nothing_is_required(runtime):
    runtime.write_config(WRONG_GPU)
    assert runtime.create().returncode == 0

    runtime.write_config("AMD_VISIBLE_DEVICES=none", WRONG_GPU)
    assert runtime.create().returncode == 0


def test_a_host_without_a_driver_requires_nothing_of_a_container_without_gpus(runtime_on):
    runtime = runtime_on("no-driver")
    runtime.write_config(WRONG_GPU)

    assert runtime.create().returncode == 0


@pytest.mark.parametrize("tracked", [False, True])
def test_gpus_that_the_engine_gives_count_too(runtime, tracked):
    if tracked:
        Tracker(runtime.host).enable()
    runtime.write_config(WRONG_GPU, linux=GIVEN)

    answer = runtime.create()

    assert (answer.returncode, answer.stderr) == (10, f"amd-container-runtime: {WRONG_GPU}: GPU 0 is gfx90a {ANYWAY}\n")


def test_the_administrator_may_have_it_noted_only(runtime):
    runtime.configure(image_requirements="warn")
    runtime.write_config("AMD_VISIBLE_DEVICES=0", WRONG_GPU)

    assert runtime.create().returncode == 0
    assert runtime.own_log == [
        f'level=WARN msg="amd-container-runtime {WRONG_GPU}: GPU 0 is gfx90a" container=c1',
        f'level=INFO msg="{GRANTED}" gpu_indices=[0] container=c1',
    ]


def test_the_administrator_may_switch_it_off(runtime):
    runtime.configure(image_requirements="ignore")
    runtime.write_config("AMD_VISIBLE_DEVICES=0", "AMD_REQUIRE_X=nonsense")

    assert runtime.create().returncode == 0
    assert len(runtime.own_log) == 1


def test_a_driver_requirement_on_the_kernels_own_driver_is_logged(runtime_on):
    runtime = runtime_on("strix-halo")
    runtime.write_config("AMD_VISIBLE_DEVICES=0", "AMD_REQUIRE_DRIVER=driver>=6.12")

    assert runtime.create().returncode == 0
    assert (
        runtime.own_log[0]
        == 'level=WARN msg="amd-container-runtime the kernel\'s own amdgpu driver has no version" container=c1'
    )


def test_an_image_for_older_processors_only_is_refused(runtime):
    runtime.write_config("AMD_VISIBLE_DEVICES=0", "AMD_REQUIRE_CPU=cpu<x86-64-v1")

    answer = runtime.create()

    assert answer.returncode == 10
    assert "AMD_REQUIRE_CPU=cpu<x86-64-v1: the processor is " in answer.stderr
