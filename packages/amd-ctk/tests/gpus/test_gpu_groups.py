"""What is wrong with groups of GPUs."""

from __future__ import annotations

import pytest

from amd_ctk.gpus.gpu_groups import find_mistake, select_groups
from amd_device_spec.settings import Settings
from amdgpu_discovery import find_gpus
from amdgpu_simulator import build_host

SHOWN = ", this host has GPUs 0-3"


@pytest.mark.parametrize(
    "request_text", ["0", "99", "0-63", "all", "0xEA35F57CC80DEB35", "0000:63:00.0", "0000:05:00.0:p1", "none", "1,2,"]
)
def test_a_request_that_some_host_can_meet_is_no_mistake(request_text):
    assert find_mistake(request_text) is None


@pytest.mark.parametrize(
    ("request_text", "sentence"),
    [
        ("garbage", "'garbage' is not a GPU number, range, unique id or PCI address"),
        ("0,first", "'first' is not a GPU number, range, unique id or PCI address"),
        ("3-1", "'3-1' is not a range of GPUs"),
        ("3:p0", "'3:p0' names no partition"),
        ("0," * 70_000, "a request of 140000 characters is too long"),
    ],
)
def test_a_request_that_no_host_can_meet_is_a_mistake(request_text, sentence):
    assert find_mistake(request_text).message == sentence


def test_groups_that_this_host_cannot_have_are_distinguished(tmp_path):
    gpus = find_gpus(build_host(tmp_path, "mi210-4"))
    settings = Settings(gpu_groups=("a=0-1", "b=99", "c=garbage", "d=none"))

    found = select_groups(settings, gpus)

    assert {name: [gpu.number for gpu in members] for name, members in found.gpus_by_name.items()} == {"a": [0, 1]}
    assert {name: problem.message for name, problem in found.problem_by_name.items()} == {
        "b": f"group:b: GPU 99 does not exist{SHOWN}",
        "c": "group:c: 'garbage' is not a GPU number, range, unique id or PCI address",
        "d": "all+group:d: no GPU of this host fits group:d",
    }
