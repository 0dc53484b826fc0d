"""Containers that say what they need: `AMD_VISIBLE_DEVICES=auto:2`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_discovery import find_gpus


@pytest.fixture
def eight(runtime_on):
    """Return a runtime on eight MI210 in two XGMI hives, all exclusive."""
    runtime = runtime_on("mi210-8")
    tracker = Tracker(runtime.host)
    tracker.enable()
    tracker.set_accessibility("all", exclusive=True)
    return runtime


def give_kfd_memory(host, number, size):
    """Let KFD list a process that has this much memory of a GPU."""
    (gpu,) = (gpu for gpu in find_gpus(host) if gpu.number == number)
    process = Path(host.path("/sys/class/kfd/kfd/proc/77"))
    process.mkdir(parents=True)
    (process / f"vram_{gpu.gpu_id}").write_text(f"{size}\n")


def refusal(runtime):
    before = runtime.config
    answer = runtime.create()
    assert answer.returncode != 0
    assert (runtime.config, runtime.runc_words) == (before, None)
    assert answer.stderr == f"{runtime.reported[-1]['msg']}\n"
    return answer.stderr.removeprefix("amd-container-runtime: ").rstrip("\n")


def test_a_container_gets_free_neighbours_and_is_told_which(eight):
    Tracker(eight.host).reserve("1-3", name="other")
    eight.write_config("AMD_VISIBLE_DEVICES=0", "AMD_VISIBLE_DEVICES=auto:2")

    answer = eight.create()

    assert (answer.returncode, answer.stderr) == (0, "")
    assert eight.config["process"]["env"] == ["PATH=/bin", "AMD_VISIBLE_DEVICES=4,5"]
    assert [path for path in eight.paths() if "render" in path] == ["/dev/dri/renderD134", "/dev/dri/renderD135"]
    (lease,) = (json.loads(path.read_bytes()) for path in eight.leases() if path.name.startswith("c1"))
    assert (lease["gpus"], lease["ways"]) == (["0000:83:00.0/0", "0000:a3:00.0/0"], ["env"])
    assert [hook["args"][1].rpartition("/")[2] for hook in eight.config["hooks"]["poststop"]] == ["release.sh"]
    assert eight.own_log[-1] == (
        'level=INFO msg="amd-container-runtime Requested GPUs for container" gpu_indices="[4 5]" chosen_for=auto:2'
        " container=c1"
    )


def test_not_enough_free_gpus_are_a_refusal_and_change_nothing(eight):
    Tracker(eight.host).reserve("0-6", name="other")
    eight.write_config("AMD_VISIBLE_DEVICES=auto:2")

    assert refusal(eight) == (
        "auto:2: 1 of 8 GPUs is free (0-6 exclusive and in use);"
        " 'amd-ctk run --gpus=auto:2 --wait -- COMMAND' waits for one"
    )
    assert [path.name for path in eight.leases()] == ["other@.json"]


@pytest.mark.parametrize(
    ("request_text", "sentence"),
    [
        ("auto:9", "auto:9: this host has 8 GPUs"),
        ("auto:2,0", "'auto:2' cannot be combined with '0': name GPUs, or say how many"),
        ("free:5+xgmi", "free:5+xgmi: the largest XGMI hive has 4 GPUs that fit"),
        ("all+vram:1TiB", "'vram:1TiB' is not an amount of memory (as in vram:64GiB)"),
        (
            "amd.com/gpu=auto:2",
            (
                "'auto:2' is not a CDI device: a CDI spec is static, and what a choice means depends on the moment"
                " (write auto:2 without 'amd.com/gpu=')"
            ),
        ),
    ],
)
def test_a_choice_that_no_host_can_meet_is_refused(eight, request_text, sentence):
    eight.write_config(f"AMD_VISIBLE_DEVICES={request_text}")

    assert refusal(eight) == sentence


@pytest.mark.parametrize("word", ["auto", "free"])
def test_a_choice_needs_the_tracker(runtime, word):
    runtime.write_config(f"AMD_VISIBLE_DEVICES={word}:1")

    assert refusal(runtime) == f"{word} needs the GPU Tracker; enable it with 'sudo amd-ctk gpu-tracker enable'"


def test_all_that_fit_need_no_tracker(runtime_on):
    runtime = runtime_on("rx7900xtx-raphael")
    runtime.write_config("AMD_VISIBLE_DEVICES=all+discrete")

    assert runtime.create().returncode == 0

    assert [path for path in runtime.paths() if "render" in path] == ["/dev/dri/renderD129"]
    assert runtime.config["process"]["env"] == ["PATH=/bin", "AMD_VISIBLE_DEVICES=0"]


def test_an_integrated_gpu_can_be_kept_out_of_all(runtime_on):
    runtime = runtime_on("rx7900xtx-raphael")
    runtime.configure(integrated_gpus="exclude")
    runtime.write_config("AMD_VISIBLE_DEVICES=all")

    assert runtime.create().returncode == 0

    assert [path for path in runtime.paths() if "render" in path] == ["/dev/dri/renderD129"]
    assert runtime.config["process"]["env"] == ["PATH=/bin", "AMD_VISIBLE_DEVICES=all"]


def test_an_integrated_gpu_that_is_named_is_given(runtime_on):
    runtime = runtime_on("rx7900xtx-raphael")
    runtime.configure(integrated_gpus="exclude")
    runtime.write_config("AMD_VISIBLE_DEVICES=1")

    assert runtime.create().returncode == 0

    assert [path for path in runtime.paths() if "render" in path] == ["/dev/dri/renderD128"]


def test_groups_are_those_of_the_configuration(eight):
    eight.configure(gpu_groups=["notebooks=6,7", "training=0-5"])
    eight.write_config("AMD_VISIBLE_DEVICES=auto:1+group:notebooks")

    assert eight.create().returncode == 0

    assert eight.config["process"]["env"] == ["PATH=/bin", "AMD_VISIBLE_DEVICES=6"]


def test_an_image_cannot_ask_where_containers_may_not(eight):
    eight.configure(visible_devices_env="privileged")
    eight.write_config("AMD_VISIBLE_DEVICES=auto:8")

    assert eight.create().returncode == 0

    assert eight.paths() == []
    assert eight.leases() == []
    assert eight.config["process"]["env"] == ["PATH=/bin", "AMD_VISIBLE_DEVICES=auto:8"]


def test_swarms_choice_counts_more_than_a_choice_by_variable(eight):
    eight.write_config("AMD_VISIBLE_DEVICES=auto:8", "DOCKER_RESOURCE_AMD_GPU=0xEA35F57CC80DEB35")
    spec = eight.config

    answer = eight.create()

    # mi210-8 has other ids than mi210-4: what Swarm promised is refused, and nothing is chosen instead.
    assert answer.returncode == 4
    assert eight.config == spec


def test_a_choice_in_the_name_of_swarm_is_refused_as_before(eight):
    eight.write_config("DOCKER_RESOURCE_AMD_GPU=auto:2")

    assert refusal(eight) == (
        "DOCKER_RESOURCE_AMD_GPU=auto:2: 'auto:2' is not a GPU number, range, unique id or PCI address (write GPUs 0-7)"
    )


def test_gpus_given_as_devices_are_not_chosen_beside(eight):
    node = {"path": "/dev/dri/renderD128", "type": "c", "major": 226, "minor": 128}
    eight.write_config("AMD_VISIBLE_DEVICES=auto:1", linux={"devices": [node]})

    assert refusal(eight) == (
        "auto:1: its GPUs are yet to be chosen, and the container was given GPUs as devices"
        " (leave out one or the other)"
    )


def test_a_container_that_runs_already_keeps_its_gpus(eight):
    eight.write_config("AMD_VISIBLE_DEVICES=auto:1")
    Tracker(eight.host).reserve("3", name="c1")

    answer = eight.create()

    assert answer.returncode == 9
    assert eight.config["process"]["env"] == ["PATH=/bin", "AMD_VISIBLE_DEVICES=auto:1"]


def test_a_failure_after_the_choice_gives_the_gpus_back(eight):
    eight.write_config("AMD_VISIBLE_DEVICES=auto:1", "AMD_REQUIRE_GFX=gfx=gfx942")

    assert refusal(eight).startswith("AMD_REQUIRE_GFX=gfx=gfx942: GPU 0 is gfx90a")
    assert eight.leases() == []


def test_all_leaves_out_drained_gpus(eight):
    Tracker(eight.host).drain("0-5")
    eight.write_config("AMD_VISIBLE_DEVICES=all")

    assert eight.create().returncode == 0
    assert [path for path in eight.paths() if "render" in path] == ["/dev/dri/renderD133", "/dev/dri/renderD132"]


def test_a_drained_gpu_that_is_named_is_refused(eight):
    Tracker(eight.host).drain("5", reason="fan swap")
    eight.write_config("AMD_VISIBLE_DEVICES=4-5")

    assert refusal(eight).startswith("GPU 5 is drained")


def test_a_gpu_in_use_without_a_reservation_is_given_by_name_and_that_is_in_the_log(eight):
    path = eight.host.path("/sys/module/amdgpu/drivers/pci:amdgpu/0000:26:00.0/mem_info_vram_used")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{40 << 30}\n")
    eight.write_config("AMD_VISIBLE_DEVICES=0-1")

    assert eight.create().returncode == 0
    assert eight.own_log[-1] == (
        'level=WARN msg="amd-container-runtime GPU 1 is used without a reservation: 40960 MiB of its memory, busy 0 %"'
        " container=c1"
    )


def test_a_program_that_uses_little_of_a_large_gpu_is_in_the_log_too(runtime_on):
    runtime = runtime_on("mi300x-8", bare=False)
    Tracker(runtime.host).enable()
    give_kfd_memory(runtime.host, 2, 1 << 30)
    runtime.write_config("AMD_VISIBLE_DEVICES=2")

    assert runtime.create().returncode == 0
    assert runtime.own_log[-1] == (
        'level=WARN msg="amd-container-runtime GPU 2 is used without a reservation: 283 MiB of its memory, busy 0 %"'
        " container=c1"
    )


def test_a_program_on_another_gpu_is_no_line_in_the_log(runtime_on):
    runtime = runtime_on("mi300x-8", bare=False)
    Tracker(runtime.host).enable()
    give_kfd_memory(runtime.host, 2, 1 << 30)
    runtime.write_config("AMD_VISIBLE_DEVICES=3")

    assert runtime.create().returncode == 0
    assert not any("without a reservation" in line for line in runtime.own_log)


def test_a_gpu_that_another_container_shares_is_no_line_in_the_log(eight):
    Tracker(eight.host).set_accessibility("1", exclusive=False)
    Tracker(eight.host).reserve("1", name="other")
    path = eight.host.path("/sys/module/amdgpu/drivers/pci:amdgpu/0000:26:00.0/mem_info_vram_used")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{40 << 30}\n")
    eight.write_config("AMD_VISIBLE_DEVICES=1")

    assert eight.create().returncode == 0
    assert "Requested GPUs" in eight.own_log[-1]
