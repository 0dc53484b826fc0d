"""amd-ctk cdi list."""

from __future__ import annotations

import json
import os

import pytest

from amd_gpu_tracker import Tracker
from amdgpu_simulator import load_profile


@pytest.fixture
def offer(tmp_path):
    """Return a function that puts a spec into a directory of the test's host."""

    def write(path, kind, *names):
        devices = [{"name": name, "containerEdits": {"env": ["A=1"]}} for name in names]
        text = json.dumps({"cdiVersion": "0.5.0", "kind": kind, "devices": devices})
        return put(path, text)

    def put(path, text):
        target = tmp_path / "host" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return str(target)

    write.text = put
    return write


def test_the_list_is_the_guides(host, amd_ctk):
    host(load_profile("one-gpu"))

    answer = amd_ctk("cdi", "list")

    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout == (
        "Found 1 AMD GPU device\n"
        "amd.com/gpu=all\n"
        "amd.com/gpu=0\n"
        "  /dev/dri/card0\n"
        "  /dev/dri/renderD128\n"
    )  # fmt: skip


def test_a_host_without_card_nodes_lists_render_nodes(host, amd_ctk, tmp_path):
    host("one-gpu")
    os.unlink(tmp_path / "host/dev/dri/card0")

    assert amd_ctk("cdi", "list").stdout == (
        "Found 1 AMD GPU device\namd.com/gpu=all\namd.com/gpu=0\n  /dev/dri/renderD128\n"
    )


def test_without_gpus_nothing_stands_for_all_of_them(host, amd_ctk):
    host(load_profile("one-gpu").replace(gpus=()))

    assert amd_ctk("cdi", "list").stdout == "Found 0 AMD GPU devices\n"
    assert json.loads(amd_ctk("cdi", "list", "--json").stdout) == {"devices": []}


def test_without_a_driver_the_failure_is_the_originals(host, amd_ctk):
    host("no-driver")

    answer = amd_ctk("cdi", "list")

    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == (
        "failed to list AMD devices: amdgpu driver unavailable: /sys/module/amdgpu/drivers/ does not exist"
        " (load it with 'sudo modprobe amdgpu', or install it)\n"
    )


def test_json_has_every_name_and_whom_it_means(host, amd_ctk):
    host("one-gpu")

    devices = json.loads(amd_ctk("cdi", "list", "--json").stdout)["devices"]

    nodes = ["/dev/dri/card0", "/dev/dri/renderD128"]
    assert devices[:2] == [
        {"name": "amd.com/gpu=0", "gpus": [0], "nodes": nodes, "refused": []},
        {"name": "amd.com/gpu=all", "gpus": [0], "nodes": nodes, "refused": []},
    ]
    assert "amd.com/gpu=0000:03:00.0" in [device["name"] for device in devices]


@pytest.mark.needs("root")
def test_drained_gpus_are_devices_that_are_refused(host, amd_ctk):
    made = host("mi210-4")
    Tracker(made).enable()
    before = amd_ctk("cdi", "list").stdout
    amd_ctk("gpu-tracker", "drain", "1", "--reason=fan swap")

    answer = amd_ctk("cdi", "list")
    devices = json.loads(amd_ctk("cdi", "list", "--json").stdout)["devices"]

    assert (answer.stdout, answer.stderr) == (before, "GPU 1 is drained: fan swap\n")
    assert {device["name"]: device["refused"] for device in devices if len(device["name"]) < 16} == {
        "amd.com/gpu=0": [],
        "amd.com/gpu=1": ["GPU 1 is drained: fan swap"],
        "amd.com/gpu=2": [],
        "amd.com/gpu=3": [],
        "amd.com/gpu=all": ["GPU 1 is drained: fan swap"],
    }


def test_specs_lists_what_engines_find(host, amd_ctk, offer):
    host("no-driver")
    etc = offer("etc/cdi/amd.json", "amd.com/gpu", "0", "1")
    run = offer("run/cdi/amd.json", "amd.com/gpu", "1")
    other = offer("etc/cdi/other.json", "nvidia.com/gpu", "0")
    offer.text("etc/cdi/amd.json.bak", "not a spec by its name")

    answer = amd_ctk("cdi", "list", "--specs")

    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout == (
        "Found 3 CDI devices\n"
        f"amd.com/gpu=0\n  {etc}\n"
        f"amd.com/gpu=1\n  {run}, instead of {etc}\n"
        f"nvidia.com/gpu=0\n  {other}\n"
    )


def test_specs_tells_what_no_engine_can_use(host, amd_ctk, offer):
    host("no-driver")
    first = offer("etc/cdi/a.json", "amd.com/gpu", "0")
    second = offer("etc/cdi/b.json", "amd.com/gpu", "0")
    # A third does not help: engines drop a name that is in conflict anywhere.
    third = offer("run/cdi/c.json", "amd.com/gpu", "0")
    broken = offer.text("etc/cdi/broken.json", '{"cdiVersion":\n')
    wrong = offer("etc/cdi/wrong.yaml", "amd.com", "0")

    assert amd_ctk("cdi", "list", "--specs").stdout == (
        "Found 0 CDI devices\n"
        "Found 1 CDI device that no engine can resolve\n"
        f"amd.com/gpu=0\n  {first} and {second} and {third}\n"
        "Found 2 files that engines ignore\n"
        f"{broken}\n  line 2: expecting value\n"
        f"{wrong}\n  kind: 'amd.com' is not of the form vendor/class\n"
    )
    assert json.loads(amd_ctk("cdi", "list", "--specs", "--json").stdout) == {
        "devices": [{"name": "amd.com/gpu=0", "paths": [first, second, third], "is_conflict": True}],
        "broken": [
            {"path": broken, "problem": "line 2: expecting value"},
            {"path": wrong, "problem": "kind: 'amd.com' is not of the form vendor/class"},
        ],
    }


def test_specs_needs_no_directory(host, amd_ctk):
    host("no-driver")

    assert amd_ctk("cdi", "list", "--specs").stdout == "Found 0 CDI devices\n"
