"""What Docker Swarm promised a task: whole GPUs by name, or memory of one GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from amd_gpu_tracker.face.tracker import Tracker

GPU_0 = "0xEA35F57CC80DEB35"
GPU_2 = "0x6E32F10EFC982B4C"
EDITS = "com.amd.container-toolkit.edits"


@pytest.fixture
def node(runtime):
    """Return a runtime on a node that `swarm setup --vram` has prepared."""
    runtime.configure(swarm_vram_resources=["VRAM"])
    Tracker(runtime.host).enable()
    return runtime


def leases(runtime):
    directory = runtime.host.path("/run/amd-container-toolkit/leases")
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    with_fields = []
    for name in names:
        with open(os.path.join(directory, name), encoding="utf-8") as file:
            with_fields.append(json.load(file))
    return with_fields


def test_a_task_gets_the_gpu_that_has_its_memory_and_is_told_how_much_is_its_own(node):
    node.write_config(
        "AMD_VISIBLE_DEVICES=all", "AMD_VRAM_LIMIT_MB=9", "AMD_VRAM_FRACTION=1", "DOCKER_RESOURCE_VRAM=4000"
    )

    answer = node.create()

    assert (answer.returncode, answer.stderr) == (0, "")
    assert node.paths() == ["/dev/dri/card3", "/dev/dri/renderD130", "/dev/kfd"]
    assert node.config["process"]["env"] == [
        "PATH=/bin",
        "AMD_VISIBLE_DEVICES=all",
        "DOCKER_RESOURCE_VRAM=4000",
        "AMD_VRAM_LIMIT_MB=4000",
        "AMD_VRAM_TOTAL_MB=65520",
        "AMD_VRAM_FRACTION=0.0610",
    ]
    (lease,) = leases(node)
    assert (lease["gpus"], lease["ways"], lease["kinds"], lease["vram_mb"]) == (
        ["0000:03:00.0/0"],
        ["swarm"],
        ["VRAM"],
        4000,
    )
    assert [hook["args"][1].rpartition("/")[2] for hook in node.config["hooks"]["poststop"]] == ["release.sh"]
    assert (
        'level=WARN msg="amd-container-runtime AMD_VISIBLE_DEVICES=all is ignored because DOCKER_RESOURCE_VRAM reserves'
        ' memory" container=c1'
    ) in node.own_log


def test_the_fraction_of_a_task_leaves_the_headroom_of_the_node_to_rocm(node):
    node.configure(swarm_vram_resources=["VRAM"], swarm_vram_headroom=500)
    node.write_config("DOCKER_RESOURCE_VRAM=4000")

    answer = node.create()

    assert (answer.returncode, answer.stderr) == (0, "")
    assert node.config["process"]["env"][-3:] == [
        "AMD_VRAM_LIMIT_MB=4000",
        "AMD_VRAM_TOTAL_MB=65520",
        "AMD_VRAM_FRACTION=0.0534",
    ]
    assert leases(node)[0]["vram_mb"] == 4000


def test_memory_that_is_all_headroom_is_refused(node):
    node.configure(swarm_vram_resources=["VRAM"], swarm_vram_headroom=500)
    node.write_config("DOCKER_RESOURCE_VRAM=500")

    answer = node.create()

    assert answer.returncode == 4
    assert answer.stderr == (
        "amd-container-runtime: DOCKER_RESOURCE_VRAM=500 is not more than the headroom of 500 MiB that this node keeps"
        " of each task's memory (reserve more, or change swarm-vram-headroom with 'sudo amd-ctk config set' on that"
        " node)\n"
    )
    assert (leases(node), node.runc_words) == ([], None)


def test_the_same_bundle_again_is_reported_once(node):
    node.write_config("DOCKER_RESOURCE_VRAM=4000")
    node.create()
    once = node.config

    node.create()

    assert node.config == once
    assert len(leases(node)) == 1


def test_without_the_tracker_memory_is_refused(runtime):
    runtime.configure(swarm_vram_resources=["VRAM"])
    runtime.write_config("DOCKER_RESOURCE_VRAM=4000")
    before = runtime.config

    answer = runtime.create()

    sentence = (
        "amd-container-runtime: DOCKER_RESOURCE_VRAM=4000: memory can be reserved only while the GPU Tracker is enabled"
        " (run 'sudo amd-ctk swarm setup --vram', or 'sudo amd-ctk gpu-tracker enable')"
    )
    assert (answer.returncode, answer.stderr) == (1, f"{sentence}\n")
    assert [line["msg"] for line in runtime.reported] == [sentence]
    assert (runtime.config, runtime.files(), runtime.runc_words) == (before, ["config.json"], None)


def test_memory_of_a_node_that_was_set_up_by_hand_is_refused_and_not_left_out(runtime):
    Tracker(runtime.host).enable()
    runtime.write_config("DOCKER_RESOURCE_VRAM=4000")

    answer = runtime.create()

    assert answer.returncode == 4
    assert answer.stderr == (
        "amd-container-runtime: DOCKER_RESOURCE_VRAM=4000 is memory of a GPU, which this node does not hand out"
        " (run 'sudo amd-ctk swarm setup --vram' on that node)\n"
    )
    assert runtime.runc_words is None


def test_an_amount_of_something_else_is_no_request_for_gpus(runtime):
    Tracker(runtime.host).enable()
    runtime.write_config("DOCKER_RESOURCE_LICENCE=4000")

    assert runtime.create().returncode == 0
    assert runtime.paths() == []


@pytest.mark.parametrize(
    ("variable", "sentence"),
    [
        ("VRAM=lots", "DOCKER_RESOURCE_VRAM=lots is not a number of MiB"),
        ("VRAM=65521", "DOCKER_RESOURCE_VRAM=65521 is more than any GPU of this node has, the largest has 65520 MiB"),
        ("AMD_GPU=0x1234", "DOCKER_RESOURCE_AMD_GPU=0x1234: no GPU has the unique id 0x1234, this host has 0xEA35F5"),
        ("AMD_GPU=nonsense", "DOCKER_RESOURCE_AMD_GPU=nonsense: 'nonsense' is not a GPU number, range, unique id or"),
        ("AMD_GPU=2", "DOCKER_RESOURCE_AMD_GPU=2 is an amount and names no GPU"),
    ],
)
def test_a_swarm_resource_that_cannot_be_met_is_refused_and_changes_nothing(node, variable, sentence):
    node.write_config(f"DOCKER_RESOURCE_{variable}")
    before = node.config

    answer = node.create()

    assert answer.returncode != 0
    assert answer.stderr.startswith(f"amd-container-runtime: {sentence}")
    assert (node.config, node.files(), node.runc_words, leases(node)) == (before, ["config.json"], None, [])


def test_memory_is_given_back_where_the_bundle_cannot_be_edited(node):
    null = {"path": "/dev/dri/renderD130", "type": "c", "major": 1, "minor": 3}
    node.write_config("DOCKER_RESOURCE_VRAM=4000", linux={"devices": [null]})

    answer = node.create()

    assert (answer.returncode, answer.stderr) == (
        4,
        (
            "amd-container-runtime: the container has device 1:3 at /dev/dri/renderD130, where 226:130 belongs"
            " (leave out the --device that puts it there)\n"
        ),
    )
    assert (node.runc_words, leases(node)) == (None, [])


def test_memory_is_given_back_where_a_device_node_is_missing(node):
    os.unlink(node.host.path("/dev/kfd"))
    node.write_config("DOCKER_RESOURCE_VRAM=4000")

    assert node.create().returncode == 1
    assert (node.runc_words, leases(node)) == (None, [])


def test_memory_and_devices_of_the_engine_do_not_go_together(node):
    render = {"path": "/dev/dri/renderD128", "type": "c", "major": 226, "minor": 128}
    node.write_config("DOCKER_RESOURCE_VRAM=4000", linux={"devices": [render]})

    assert node.create().stderr == (
        "amd-container-runtime: DOCKER_RESOURCE_VRAM=4000 is memory of a GPU that is yet to be chosen, and the"
        " container was given GPUs as devices (leave out one or the other)\n"
    )
    assert leases(node) == []


def test_whole_gpus_of_swarm_are_leased_by_their_kinds(node):
    node.configure(swarm_resources=["AMD_GPU", "MI210"])
    node.write_config(f"DOCKER_RESOURCE_AMD_GPU={GPU_0}", f"DOCKER_RESOURCE_MI210={GPU_2}")

    assert node.create().returncode == 0

    (lease,) = leases(node)
    assert (lease["gpus"], lease["ways"], lease["kinds"], lease["vram_mb"]) == (
        ["0000:03:00.0/0", "0000:43:00.0/0"],
        ["swarm"],
        ["AMD_GPU", "MI210"],
        0,
    )


@pytest.mark.parametrize(
    ("visible", "paths"),
    [("0", ["/dev/dri/card3", "/dev/dri/renderD130", "/dev/kfd"]), ("none", [])],
)
def test_variables_of_swarm_in_an_image_do_not_override_its_user(runtime, visible, paths):
    image = ["DOCKER_RESOURCE_GPU=all", "DOCKER_RESOURCE_AMD_GPU=0000:26:00.0", f"DOCKER_RESOURCE_OTHER={GPU_2}"]
    runtime.write_config(*image, f"AMD_VISIBLE_DEVICES={visible}")

    assert runtime.create().returncode == 0
    assert runtime.paths() == paths


def test_the_log_says_what_an_image_asked_for_in_vain(runtime):
    runtime.write_config("DOCKER_RESOURCE_GPU=all", "AMD_VISIBLE_DEVICES=none")

    runtime.create()

    assert runtime.own_log == [
        (
            'level=WARN msg="amd-container-runtime ignoring DOCKER_RESOURCE_GPU because AMD_VISIBLE_DEVICES asks for'
            ' no GPU" container=c1'
        ),
        'level=INFO msg="amd-container-runtime Requested GPUs for container" gpu_indices=[] container=c1',
    ]


@pytest.mark.parametrize("resource", ["GPU=", "GPU=none", "FPGA=0x1234", "AMD_GPU= "])
def test_resources_that_name_no_gpu_need_no_driver(runtime_on, resource):
    runtime = runtime_on("no-driver")
    runtime.write_config(f"DOCKER_RESOURCE_{resource}")

    assert runtime.create().returncode == 0
    assert runtime.paths() == []


def test_sixty_variables_of_nine_thousand_addresses_name_one_gpu(runtime):
    addresses = ",".join(f"0000:{number >> 5:02x}:{number & 31:02x}.{number >> 13}" for number in range(9000))
    runtime.write_config(*(f"DOCKER_RESOURCE_X{number}={addresses}" for number in range(60)), "AMD_VISIBLE_DEVICES=1")

    assert runtime.create().returncode == 0
    assert runtime.paths() == ["/dev/dri/card4", "/dev/dri/renderD131", "/dev/kfd"]
    assert len("".join(runtime.own_log)) < 5000


def test_twenty_thousand_resources_are_refused_in_a_short_sentence(runtime):
    runtime.write_config(*(f"DOCKER_RESOURCE_X{number}={GPU_0}" for number in range(20_000)))

    answer = runtime.create()

    assert answer.returncode == 4
    assert answer.stderr == (
        f"amd-container-runtime: DOCKER_RESOURCE_X0={GPU_0} is of a kind by which this node does not advertise GPUs"
        " (if it does, add the kind to swarm-resources with 'sudo amd-ctk config set' on that node)\n"
    )


def test_many_tasks_at_once_never_share_more_than_there_is(node, tmp_path):
    node.runc.write_text("#!/bin/sh\nexec sleep 120\n")
    code = "from amd_container_runtime.shim import main; main()"
    tasks = []
    for task in range(14):
        bundle = tmp_path / f"bundle-{task}"
        bundle.mkdir()
        (bundle / "config.json").write_text(json.dumps({"process": {"env": ["DOCKER_RESOURCE_VRAM=20000"]}}))
        words = [sys.executable, "-I", "-c", code, "create", "--bundle", bundle, f"c{task}"]
        tasks.append(subprocess.Popen(words, env=node.environment, stderr=subprocess.DEVNULL))
    try:
        # Three fit on each of four GPUs; who is refused ends.
        until = time.monotonic() + 60
        while len([task for task in tasks if task.poll() is not None]) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        while len(leases(node)) < 12 and time.monotonic() < until:
            time.sleep(0.05)

        assert [task.poll() for task in tasks].count(None) == 12
        holders = sorted(gpu for lease in leases(node) for gpu in lease["gpus"])
        addresses = ["0000:03:00.0/0", "0000:26:00.0/0", "0000:43:00.0/0", "0000:63:00.0/0"]
        assert holders == sorted(addresses * 3)
    finally:
        for task in tasks:
            task.kill()
            task.wait()
