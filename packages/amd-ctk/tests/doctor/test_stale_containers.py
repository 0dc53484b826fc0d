"""Containers whose device numbers are those of an earlier driver."""

from __future__ import annotations

import json

import pytest

from amd_ctk.doctor.facts import containers
from amd_ctk.doctor.facts.all import Facts
from amd_ctk.doctor.facts.cdi import CdiFacts
from amd_ctk.doctor.facts.docker import DockerFacts
from amd_ctk.doctor.facts.gpus import read_gpus
from amd_ctk.doctor.facts.kernel import KernelFacts
from amd_ctk.doctor.facts.toolkit import ToolkitFacts
from amd_ctk.doctor.run import run_checks
from amdgpu_simulator import build_host


def facts_of(gpus, stale):
    return Facts(
        kernel=KernelFacts(is_driver_loaded=True),
        gpus=gpus,
        docker=DockerFacts(),
        cdi=CdiFacts(),
        toolkit=ToolkitFacts(),
        stale_containers=stale,
    )


@pytest.mark.parametrize(
    ("bundle", "fix"),
    [
        ("run/containerd/io.containerd.runtime.v2.task/moby/0123", "start it again: docker restart 0123456789ab"),
        ("storage/overlay-containers/0123/userdata", "start it again: podman restart 0123456789ab"),
        ("run/containerd/io.containerd.runtime.v2.task/k8s.io/0123", "start it again: crictl stop 0123456789ab"),
        ("bundle", "start it again: restart 0123456789ab with the engine that started it"),
    ],
)
def test_a_container_with_other_numbers_is_named(tmp_path, bundle, fix):
    gpus = read_gpus(build_host(tmp_path / "host", "one-gpu", bare=True))
    devices = [
        {"path": "/dev/kfd", "type": "c", "major": 234, "minor": 0},
        {"path": "/dev/dri/renderD128", "type": "c", "major": 226, "minor": 128},
    ]
    (tmp_path / bundle).mkdir(parents=True)
    (tmp_path / bundle / "config.json").write_text(json.dumps({"linux": {"devices": devices}}))
    numbers = {node.path: f"{node.major}:{node.minor}" for node in gpus.nodes}

    stale = tuple(containers._compare("0123456789abcdef", str(tmp_path / bundle), numbers))

    (result,) = run_checks(facts_of(gpus, stale), only=["containers"])
    assert result.finding.state == "bad"
    assert result.finding.words == "container 0123456789ab has /dev/kfd as 234:0, but the host has 235:0"
    assert result.finding.fix == fix


def test_a_user_without_root_reads_what_the_check_needs(tmp_path):
    gpus = read_gpus(build_host(tmp_path / "host", "one-gpu", bare=True))

    (result,) = run_checks(facts_of(gpus, None), only=["containers"])

    assert (result.finding.state, result.finding.needs) == ("not checked", "root")


def test_a_bundle_that_cannot_be_read_is_passed_over(tmp_path):
    (tmp_path / "config.json").write_text("[")

    assert list(containers._compare("c1", str(tmp_path), {})) == []
