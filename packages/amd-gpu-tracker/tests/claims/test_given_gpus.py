"""What a spec says about the device nodes and the cgroup of a container."""

from __future__ import annotations

import pytest

from amd_gpu_tracker.claims.given_gpus import allows_every_device, drm_minors, gpus_given, may_give_gpus, shared_cgroup
from amdgpu_discovery.numbering import locate_gpus

DENY_ALL = {"allow": False, "access": "rwm"}
ALLOW_ALL = {"allow": True, "access": "rwm"}
ALLOW_ONE = {"allow": True, "type": "c", "major": 226, "minor": 128, "access": "rw"}


@pytest.mark.parametrize(
    ("rules", "answer"),
    [
        ([ALLOW_ALL], True),
        ([DENY_ALL, ALLOW_ONE, ALLOW_ALL], True),
        ([DENY_ALL, {**ALLOW_ALL, "type": "a"}], True),
        ([ALLOW_ALL, DENY_ALL], False),
        ([DENY_ALL, ALLOW_ONE], False),
        ([DENY_ALL, {"allow": True, "type": "c", "access": "m"}], False),
        ([7, None], False),
        ([], False),
        (None, False),
    ],
)
def test_a_container_may_use_every_device_where_the_last_general_rule_says_so(rules, answer):
    assert allows_every_device({"linux": {"resources": {"devices": rules}}}) is answer


@pytest.mark.parametrize("spec", [{}, {"linux": None}, {"linux": {"resources": []}}])
def test_a_spec_without_rules_allows_nothing_in_general(spec):
    assert not allows_every_device(spec)


def test_nodes_of_gpus_are_known_by_their_number_under_any_path():
    devices = [
        {"path": "/dev/gpu", "type": "c", "major": 226, "minor": 128},
        {"path": "/dev/dri/renderD129", "type": "c", "major": 1, "minor": 3},
        "x",
    ]

    assert drm_minors({"linux": {"devices": devices}}) == {128}
    assert drm_minors({"linux": {"devices": {}}}) == set()


NODE_OF_GPU_0 = {"path": "/dev/gpu", "type": "c", "major": 226, "minor": 130}
RULE = {"allow": True, "type": "c", "major": 226, "access": "rwm"}
EVERY_GPU = [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("rules", "devices", "given"),
    [
        # What --device gives is listed and allowed.
        ([DENY_ALL, {**RULE, "minor": 130}], [NODE_OF_GPU_0], [0]),
        # What --device-cgroup-rule allows, containers make themselves: '226:131', the card of GPU 2, and '226:*'.
        ([DENY_ALL, {**RULE, "minor": 131}], [], [1]),
        ([DENY_ALL, {**RULE, "minor": 2, "access": "r"}], [NODE_OF_GPU_0], [0, 2]),
        ([DENY_ALL, {**RULE, "minor": -1}], [], EVERY_GPU),
        ([DENY_ALL, RULE], [], EVERY_GPU),
        ([DENY_ALL, {**RULE, "major": -1, "minor": -1}], [], EVERY_GPU),
        ([DENY_ALL, {"allow": True, "type": "c", "access": "rw"}], [], EVERY_GPU),
        ([DENY_ALL, {**RULE, "type": "a", "major": -1, "minor": -1}], [], EVERY_GPU),
        # A node that cannot be opened is of no use, and GPUs are no disks.
        ([DENY_ALL, {"allow": True, "type": "c", "access": "m"}], [], []),
        ([DENY_ALL, {**RULE, "minor": -1, "access": "m"}], [], []),
        ([DENY_ALL, {**RULE, "type": "b", "minor": -1}], [], []),
        ([DENY_ALL, {**RULE, "allow": False, "minor": 131}], [], []),
        ([DENY_ALL, {**RULE, "major": 5, "minor": -1}], [], []),
        # Privileged containers list every device, and were given what a rule names.
        ([ALLOW_ALL], [NODE_OF_GPU_0], []),
        ([ALLOW_ALL, {**RULE, "minor": -1}], [NODE_OF_GPU_0], []),
        ([ALLOW_ALL, {**RULE, "minor": 131}], [NODE_OF_GPU_0], [1]),
    ],
)
def test_a_container_is_given_the_gpus_of_its_nodes_and_of_its_rules(untracked, rules, devices, given):
    spec = {"linux": {"devices": devices, "resources": {"devices": rules}}}

    assert [gpu.number for gpu in gpus_given(spec, locate_gpus(untracked.host))] == given
    assert may_give_gpus(spec) is bool(given)


@pytest.mark.parametrize(
    ("linux", "cgroup"),
    [
        ({"namespaces": [{"type": "pid"}]}, ""),
        ({"namespaces": [{"type": "pid", "path": "/proc/1/ns/pid"}], "cgroupsPath": "/docker/c1"}, "/docker/c1"),
        ({"namespaces": [{"type": "mount"}]}, "c1"),
        ({}, "c1"),
        (None, ""),
    ],
)
def test_a_container_in_somebodys_pid_namespace_lives_while_its_cgroup_does(linux, cgroup):
    assert shared_cgroup({"linux": linux}, "c1") == cgroup
