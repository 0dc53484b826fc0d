"""Whether a CDI spec is still true of a machine."""

from __future__ import annotations

import copy

import pytest

from amd_device_spec.cdi.spec import CdiOptions, build_cdi_hooks, build_cdi_spec
from amd_device_spec.cdi.validate import format_location
from amd_device_spec.cdi.validate_host import host_problems
from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.driver.device_nodes import find_device_nodes
from amdgpu_simulator import build_host

HOOKS = build_cdi_hooks({"createRuntime": [{"path": "/usr/bin/python3"}]})


@pytest.fixture
def machine(tmp_path):
    """Return the GPUs and nodes of a host with four GPUs, and its spec."""
    host = build_host(tmp_path / "host", "mi210-4", bare=True)
    gpus = find_gpus(host)
    nodes = find_device_nodes(host, gpus)
    return gpus, nodes, build_cdi_spec(gpus, nodes, CdiOptions(name_strategy="uuid"))


def told(machine, hooks=(), gpus=None):
    all_gpus, nodes, spec = machine
    problems = host_problems(spec, all_gpus if gpus is None else gpus, nodes, hooks=hooks)
    return [f"{format_location(problem.location)}: {problem.message}" for problem in problems]


def nodes_of(machine, position):
    return machine[2]["devices"][position]["containerEdits"]["deviceNodes"]


def test_a_fresh_spec_is_true(machine):
    assert told(machine) == []


def test_a_number_that_the_kernel_gave_again_is_reported(machine):
    nodes_of(machine, 1)[2]["major"] = 234

    assert told(machine) == ["devices[1].containerEdits.deviceNodes[2].major: 234, but that of /dev/kfd is 510"]


def test_numbers_that_a_spec_leaves_to_the_engine_are_true(machine):
    del nodes_of(machine, 1)[2]["major"]

    assert told(machine) == []


@pytest.mark.parametrize(
    ("name", "shown"),
    [("card\ud800", "'/dev/dri/card\\ud800'"), ("\x1b[2J", "'/dev/dri/\\x1b[2J'"), ("\u202e", "'/dev/dri/\\u202e'")],
)
def test_a_node_whose_name_no_terminal_should_see_is_reported_escaped(machine, name, shown):
    nodes_of(machine, 0)[0]["path"] = f"/dev/dri/{name}"

    assert told(machine) == [f"devices[0].containerEdits.deviceNodes[0].path: {shown} is not a node of GPU 0"]


def test_the_node_of_another_gpu_is_reported(machine):
    nodes_of(machine, 0)[1] = copy.deepcopy(nodes_of(machine, 1)[1])

    assert told(machine) == [
        "devices[0].containerEdits.deviceNodes[1].path: /dev/dri/renderD131 is not a node of GPU 0",
        "devices[0].containerEdits.deviceNodes: /dev/dri/renderD130 is missing",
    ]


def test_a_gpu_that_is_gone_is_reported_under_each_of_its_names(machine):
    assert told(machine, gpus=machine[0][:3]) == [
        "devices[3].name: '3' names no GPU of this machine",
        "devices[4].containerEdits.deviceNodes[6].path: /dev/dri/card1 is not a node of what all names",
        "devices[4].containerEdits.deviceNodes[7].path: /dev/dri/renderD128 is not a node of what all names",
        "devices[17].name: '0x12FE4F7FDAF06B9' names no GPU of this machine",
        "devices[18].name: '0x12fe4f7fdaf06b9' names no GPU of this machine",
        "devices[19].name: '01ff740f-0000-1000-802f-e4f7fdaf06b9' names no GPU of this machine",
        "devices[20].name: '0100740f-0000-1000-802f-e4f7fdaf06b9' names no GPU of this machine",
    ]


def test_a_gpu_that_has_come_is_reported(machine):
    del machine[2]["devices"][3]

    assert told(machine) == ["devices: GPU 3 of this machine is missing"]


def test_additions_of_the_author_to_a_spec_are_no_problem(machine):
    machine[2]["devices"].append({"name": "mine", "containerEdits": {"env": ["A=1"]}})
    machine[2]["devices"][0]["containerEdits"]["mounts"] = [{"hostPath": "/opt/rocm", "containerPath": "/opt/rocm"}]
    nodes_of(machine, 0).append({"path": "/dev/infiniband/uverbs0"})
    machine[2]["containerEdits"] = {"hooks": [{"hookName": "poststop", "path": "/bin/true"}]}

    assert told(machine) == []


def test_a_card_node_that_has_gone_is_told_and_one_left_out_is_not(machine):
    gpus, nodes, spec = machine
    without_card = [node for node in nodes if node.path != "/dev/dri/card3"]
    problems = [problem.message for problem in host_problems(spec, gpus, without_card)]
    del nodes_of(machine, 0)[0]

    assert problems == ["/dev/dri/card3 does not exist"] * 6
    assert told(machine) == []


def test_hooks_of_the_tracker_that_are_missing_are_reported(machine):
    assert told(machine, hooks=HOOKS) == [
        "containerEdits: the createRuntime hook of the toolkit is missing",
    ]

    machine[2]["containerEdits"] = {"hooks": HOOKS}

    assert told(machine, hooks=HOOKS) == []
