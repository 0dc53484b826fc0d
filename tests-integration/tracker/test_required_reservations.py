"""A host on which containers need a reservation."""

from __future__ import annotations

import json

import pytest

from amd_gpu_tracker import Tracker
from amdgpu_discovery.host import Host

REFUSAL = "containers get only reserved GPUs on this host (start it with 'amd-ctk run --gpus=free:1 -- docker run ...')"


@pytest.fixture
def strict(engine):
    engine.ctk("gpu-tracker", "enable")
    assert engine.ctk("users", "require-reservation", "on") == "Containers get only reserved GPUs\n"
    return engine


@pytest.mark.parametrize("gpus", ["0", "all", "free:1", "auto:2"])
def test_a_container_without_a_reservation_is_refused(strict, gpus):
    assert strict.run("c1", gpus) == f"amd-container-runtime: {REFUSAL}"
    assert strict.leases() == []


def test_a_container_without_gpus_starts(strict):
    assert strict.run("c1", None) == ""


def test_devices_and_rules_are_no_way_around_it(strict):
    node = json.loads(strict.ctk("gpu", "list", "--json"))["gpus"][0]["render_node"]
    rule = {"allow": True, "type": "c", "major": 226, "minor": -1, "access": "rwm"}

    assert REFUSAL in strict.run("c1", None, linux={"devices": [{"type": "c", **node}]})
    assert REFUSAL in strict.run("c2", None, linux={"resources": {"devices": [rule]}})


def test_a_container_has_the_gpus_of_its_reservation_and_no_others(strict):
    with Tracker(Host(strict.environment["AMD_CTK_HOST_ROOT"])).reserve("0-1", name="train") as held:
        token = f"AMD_CTK_RESERVATION={held.environment['AMD_CTK_RESERVATION']}"

        def run(container_id, gpus):
            process = {"args": ["bash"], "env": [f"AMD_VISIBLE_DEVICES={gpus}", token]}
            return strict.run(container_id, None, process=process)

        assert run("c1", "0,2") == f"amd-container-runtime: {REFUSAL}"
        assert run("c2", "0-1") == ""

    assert run("c3", "3") == f"amd-container-runtime: {REFUSAL}"


def test_required_reservations_outlive_a_reset_and_are_shown(strict):
    strict.ctk("gpu-tracker", "reset")
    strict.ctk("gpu-tracker", "disable")
    strict.ctk("gpu-tracker", "enable")

    assert REFUSAL in strict.run("c1", "0")
    assert strict.ctk("users", "list") == "Only root may reserve GPUs\nContainers get only reserved GPUs\n"
    assert json.loads(strict.ctk("users", "list", "--json"))["require_reservation"] is True


def test_required_reservations_can_be_turned_off(strict):
    assert strict.ctk("users", "require-reservation", "off") == "Containers get the GPUs that they ask for\n"

    assert strict.run("c1", "0") == ""


def test_explain_says_so(strict):
    strict.ctk("runtime", "configure")

    said = strict.ctk("explain", "docker", "run", "--runtime=amd", "-e", "AMD_VISIBLE_DEVICES=0", "busybox")

    assert "containers get only reserved GPUs on this host" in said
