"""Docker and Podman on a host that has a GPU of NVIDIA, with its CDI spec, beside four of AMD."""

from __future__ import annotations

import json

import pytest

from support.cdi_engines import RUNTIME, PodmanInBox

pytestmark = [pytest.mark.e2e, pytest.mark.engines]

# What NVIDIA's toolkit writes, as far as engines look at it; the driver's numbers.
NVIDIA = {
    "cdiVersion": "0.5.0",
    "kind": "nvidia.com/gpu",
    "devices": [
        {
            "name": "0",
            "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0", "type": "c", "major": 195, "minor": 0}]},
        }
    ],
    "containerEdits": {"env": ["NVIDIA_VISIBLE_DEVICES=void"]},
}
NODES = ("sh", "-c", "ls /dev/dri /dev/kfd /dev/nvidia0 2>/dev/null; true")
AMD_1 = ["/dev/kfd", "card4", "renderD131"]


@pytest.fixture(scope="module", params=["docker", "podman"])
def engine(request, docker_28):
    """Return an engine whose runtime is AMD's; the device nodes of both vendors are there."""
    box = docker_28.box
    box.write("/etc/cdi/nvidia.json", json.dumps(NVIDIA).encode())
    box("sh", "-c", "test -e /dev/nvidia0 || mknod -m 666 /dev/nvidia0 c 195 0")
    return docker_28 if request.param == "docker" else PodmanInBox(box, runtime=RUNTIME)


def nodes(ended):
    assert ended.returncode == 0, ended.stderr
    return sorted(word for word in ended.stdout.split() if not word.endswith(":"))


@pytest.mark.parametrize(
    ("request_text", "of_amd"),
    [("1", AMD_1), ("amd.com/gpu=1", AMD_1), ("none", []), ("amd.com/gpu=none", [])],
)
def test_the_variable_says_which_of_amd_and_the_device_adds_the_other_vendors(engine, request_text, of_amd):
    ended = engine.run("nvidia.com/gpu=0", *NODES, options=(f"--env=AMD_VISIBLE_DEVICES={request_text}",))

    assert nodes(ended) == sorted([*of_amd, "/dev/nvidia0"])


def test_devices_of_both_vendors_stand_in_one_command(engine):
    assert nodes(engine.run("nvidia.com/gpu=0", *NODES, options=("--device=amd.com/gpu=1",))) == sorted(
        [*AMD_1, "/dev/nvidia0"]
    )


def test_each_vendors_device_gives_its_own_gpus_only(engine):
    assert nodes(engine.run("nvidia.com/gpu=0", *NODES)) == ["/dev/nvidia0"]
    assert nodes(engine.run("amd.com/gpu=all", "sh", "-c", "ls /dev/nvidia0 2>/dev/null; ls /dev/kfd")) == ["/dev/kfd"]


def test_no_spec_has_a_device_none(engine):
    ended = engine.run("amd.com/gpu=none", "true")

    assert ended.returncode != 0
    assert "unresolvable CDI devices amd.com/gpu=none" in ended.stderr
