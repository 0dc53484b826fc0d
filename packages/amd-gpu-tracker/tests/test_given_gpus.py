"""What a spec says about the device nodes and the cgroup of a container."""

from __future__ import annotations

import pytest

from amd_gpu_tracker.given_gpus import allows_every_device, drm_minors, shared_cgroup

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


@pytest.mark.parametrize(
    ("linux", "cgroup"),
    [
        ({"namespaces": [{"type": "pid"}]}, ""),
        ({"namespaces": [{"type": "pid", "path": "/proc/1/ns/pid"}], "cgroupsPath": "/docker/c1"}, "/docker/c1"),
        ({"namespaces": [{"type": "mount"}]}, "/c1"),
        ({}, "/c1"),
        (None, ""),
    ],
)
def test_a_container_in_somebodys_pid_namespace_lives_while_its_cgroup_does(linux, cgroup):
    assert shared_cgroup({"linux": linux}, "c1") == cgroup
