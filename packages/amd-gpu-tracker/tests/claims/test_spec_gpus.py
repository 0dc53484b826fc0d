"""What a spec says about the device nodes and the cgroup of a container."""

from __future__ import annotations

import pytest

from amd_gpu_tracker.claims.spec_gpus import drm_minors, gpus_in_spec, names_gpus, shared_cgroup
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.oci_spec import is_privileged

DENY_ALL = {"allow": False, "access": "rwm"}
ALLOW_ALL = {"allow": True, "access": "rwm"}
ALLOW_ONE = {"allow": True, "type": "c", "major": 226, "minor": 128, "access": "rw"}
# What --privileged adds to the rule that allows every device.
PRIVILEGED = {"capabilities": {"bounding": ["CAP_CHOWN", "CAP_SYS_ADMIN"]}}


@pytest.mark.parametrize(
    ("rules", "answer"),
    [
        ([ALLOW_ALL], True),
        ([DENY_ALL, ALLOW_ONE, ALLOW_ALL], True),
        ([DENY_ALL, {**ALLOW_ALL, "type": "a"}], True),
        ([DENY_ALL, {**ALLOW_ALL, "type": "all"}], True),
        # For runc, and for crun with cgroups v1, the rest of such a rule says nothing.
        ([DENY_ALL, {"allow": True, "type": "a", "major": 5, "minor": 1, "access": "m"}], True),
        ([ALLOW_ALL, {"allow": False, "type": "a", "major": 5, "minor": 1, "access": "rwm"}], True),
        ([ALLOW_ALL, {"allow": False, "access": "m"}], True),
        ([ALLOW_ALL, DENY_ALL], False),
        ([ALLOW_ALL, {"allow": False, "type": "a", "major": -1, "minor": -1, "access": "mrw"}], False),
        ([DENY_ALL, ALLOW_ONE], False),
        ([DENY_ALL, {"allow": True, "type": "c", "access": "m"}], False),
        ([], False),
        (None, False),
    ],
)
def test_a_container_is_privileged_where_the_last_general_rule_allows_every_device(rules, answer):
    spec = {"process": PRIVILEGED, "linux": {"resources": {"devices": rules}}}

    assert is_privileged(spec) is answer


@pytest.mark.parametrize("linux", [None, {}, {"resources": None}])
def test_a_capability_without_rules_makes_no_privileged_container(linux):
    assert not is_privileged({"process": PRIVILEGED, "linux": linux})


@pytest.mark.parametrize(
    "process", [None, {}, {"capabilities": None}, {"capabilities": {"bounding": ["CAP_MKNOD"], "effective": []}}]
)
def test_a_rule_for_every_device_without_the_capabilities_makes_no_privileged_container(process):
    assert not is_privileged({"process": process, "linux": {"resources": {"devices": [ALLOW_ALL]}}})


def test_nodes_of_gpus_are_known_by_their_number_under_any_path():
    devices = [
        {"path": "/dev/gpu", "type": "c", "major": 226, "minor": 128},
        {"path": "/dev/dri/renderD129", "type": "c", "major": 1, "minor": 3},
    ]

    assert drm_minors({"linux": {"devices": devices}}) == {128}
    assert drm_minors({"linux": {"devices": None}}) == set()


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
        # Podman's 'c *:131' and 'c *:*' have no major, and its 'a *:*' no number at all.
        ([DENY_ALL, {"allow": True, "type": "c", "minor": 131, "access": "rwm"}], [], [1]),
        ([DENY_ALL, {"allow": True, "type": "c", "access": "rwm"}], [], EVERY_GPU),
        ([DENY_ALL, {"allow": True, "type": "a", "access": "rwm"}], [], EVERY_GPU),
        ([DENY_ALL, {"allow": True, "type": "a", "major": 5, "minor": 1, "access": "m"}], [], EVERY_GPU),
        ([DENY_ALL, {"allow": True, "type": "", "access": "rwm"}], [], EVERY_GPU),
        ([ALLOW_ALL], [], EVERY_GPU),
        ([ALLOW_ALL, DENY_ALL], [], []),
    ],
)
def test_a_container_is_given_the_gpus_of_its_nodes_and_of_its_rules(untracked, rules, devices, given):
    spec = {"linux": {"devices": devices, "resources": {"devices": rules}}}

    assert [gpu.number for gpu in gpus_in_spec(spec, locate_gpus(untracked.host))] == given
    assert names_gpus(spec) is bool(given)


@pytest.mark.parametrize(
    ("rules", "given"),
    [
        ([ALLOW_ALL], []),
        ([ALLOW_ALL, {**RULE, "minor": -1}], []),
        ([ALLOW_ALL, {**RULE, "minor": 131}], [1]),
        ([DENY_ALL, {**ALLOW_ALL, "type": "a"}], []),
    ],
)
def test_a_privileged_container_is_given_what_a_rule_names_and_not_what_it_could_reach(untracked, rules, given):
    linux = {"devices": [NODE_OF_GPU_0], "resources": {"devices": rules}}
    spec = {"process": PRIVILEGED, "linux": linux}

    assert [gpu.number for gpu in gpus_in_spec(spec, locate_gpus(untracked.host))] == given
    assert names_gpus(spec) is bool(given)


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
