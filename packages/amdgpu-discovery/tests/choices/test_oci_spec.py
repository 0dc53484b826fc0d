"""A container's spec is read as the runtimes read it, or refused; what it says of privileges, GPUs and its cgroup."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amdgpu_discovery.choices.oci_spec import (
    drm_minors,
    find_given_gpus,
    gpus_in_spec,
    is_privileged,
    names_gpus,
    read_spec,
    shared_cgroup,
)
from amdgpu_discovery.errors import FileError
from amdgpu_discovery.numbering import locate_gpus


@pytest.fixture
def read(tmp_path):
    """Return a function that reads a spec of this text."""
    path = tmp_path / "config.json"

    def read(text):
        path.write_text(text)
        return read_spec(str(path), name="config.json", hint="look elsewhere")

    return read


def test_a_spec_is_read_as_it_stands(read):
    spec = {
        "process": {"env": ["A=1"], "user": {"uid": 0, "additionalGids": [1]}, "capabilities": None, "Terminal": 1},
        "linux": {
            "devices": [{"path": "/dev/dri/card0", "type": "c", "major": 226, "minor": 0, "fileMode": 432}],
            "resources": {"devices": [{"allow": False, "access": "rwm"}, {"allow": True, "major": None}]},
            "namespaces": [{"type": "pid"}],
            "sysctl": {"MAJOR": "any key may stand here"},
        },
        "hooks": None,
        "annotations": {"Process": "and here", "process": 5},
        "unknown": {"big": 123456789012345678901234567890},
    }

    assert read(json.dumps(spec, indent=3)) == spec


def test_a_file_that_is_not_there_is_named_with_its_hint(tmp_path):
    with pytest.raises(FileError) as refusal:
        read_spec(str(tmp_path / "config.json"), name="config.json", hint="look elsewhere")

    assert str(refusal.value) == "config.json cannot be read: it does not exist (look elsewhere)"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ('{"a": NaN}', "is not JSON: NaN is not JSON"),
        ("[" * 100_000, "is not JSON: it is nested too deeply"),
        ('{"a": ' * 100_000, "is not JSON: it is nested too deeply"),
        ("[]", "is not a JSON object"),
        ("5", "is not a JSON object"),
    ],
)
def test_a_spec_that_is_no_object_is_refused(read, text, complaint):
    with pytest.raises(FileError) as refusal:
        read(text)

    assert str(refusal.value).startswith(f"config.json {complaint}")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"linux": 7}', "its 'linux' is not an object"),
        ('{"process": {"env": {"A": "1"}}}', "its 'process.env' is not a list"),
        ('{"process": {"env": ["A=1", null]}}', "entry 1 of its 'process.env' is not a string"),
        (
            '{"process": {"user": {"additionalGids": [true]}}}',
            "entry 0 of its 'process.user.additionalGids' is not a number",
        ),
        ('{"linux": {"namespaces": 5}}', "its 'linux.namespaces' is not a list"),
        ('{"linux": {"namespaces": [5]}}', "entry 0 of its 'linux.namespaces' is not an object"),
        ('{"linux": {"devices": [{}, {"minor": [1]}]}}', "its 'linux.devices[1].minor' is not a number"),
        ('{"linux": {"devices": [{"major": "226"}]}}', "its 'linux.devices[0].major' is not a number"),
        ('{"linux": {"resources": {"devices": [null]}}}', "entry 0 of its 'linux.resources.devices' is not an object"),
        (
            '{"linux": {"resources": {"devices": [{"major": 226.0}]}}}',
            "its 'linux.resources.devices[0].major' is not a number",
        ),
        (
            '{"linux": {"resources": {"devices": [{"allow": 1}]}}}',
            "its 'linux.resources.devices[0].allow' is not true or false",
        ),
        ('{"linux": {"cgroupsPath": ["/a"]}}', "its 'linux.cgroupsPath' is not a string"),
        ('{"hooks": {"poststop": [{"args": "x"}]}}', "its 'hooks.poststop[0].args' is not a list"),
        ('{"annotations": ["x"]}', "its 'annotations' is not an object"),
    ],
)
def test_a_value_of_another_type_than_in_a_spec_is_refused_where_it_is_read(read, text, complaint):
    with pytest.raises(FileError) as refusal:
        read(text)

    assert str(refusal.value) == f"config.json is not a spec: {complaint}"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('{"linux": {}, "linux": {}}', "linux"),
        ('{"linux": {"devices": [{"major": 5, "minor": 1, "major": 226}]}}', "major"),
        ('{"unknown": [{"a": 1, "b": 2, "b": 2}]}', "b"),
        (r'{"linux": {}, "\u006cinux": {}}', "linux"),
    ],
)
def test_a_key_given_twice_is_refused(read, text, key):
    with pytest.raises(FileError) as refusal:
        read(text)

    assert str(refusal.value) == (
        f"config.json is not a spec: its key '{key}' is given twice in one object"
        " (runtimes differ in which one they use)"
    )


@pytest.mark.parametrize(
    ("text", "where", "meant"),
    [
        ('{"Linux": {}}', "'Linux'", "linux"),
        ('{"linux": {"Devices": []}}', "'Devices' in 'linux'", "devices"),
        ('{"linux": {"devices": [{"MAJOR": 226}]}}', "'MAJOR' in 'linux.devices[0]'", "major"),
        ('{"linux": {"cgroupspath": "/a"}}', "'cgroupspath' in 'linux'", "cgroupsPath"),
        # Go takes the long s and the sign of Kelvin for s and k.
        ('{"proce\u017fs": {}}', "'proce\u017fs'", "process"),
    ],
)
def test_a_key_in_another_case_is_refused(read, text, where, meant):
    with pytest.raises(FileError) as refusal:
        read(text)

    assert str(refusal.value) == (
        f"config.json is not a spec: its key {where} is not written '{meant}' (runtimes differ in whether they read it)"
    )


NAMES = ["process", "env", "linux", "devices", "resources", "major", "namespaces", "hooks", "poststop", "Major"]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(NAMES), ANYTHING))
def test_any_document_is_read_or_refused(read, document):
    try:
        assert read(json.dumps(document)) == document
    except FileError as refusal:
        assert refusal.message.startswith("config.json is not a spec: ")


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
def test_a_container_is_given_the_gpus_of_its_nodes_and_of_its_rules(simulated, rules, devices, given):
    spec = {"linux": {"devices": devices, "resources": {"devices": rules}}}

    assert [gpu.number for gpu in gpus_in_spec(spec, locate_gpus(simulated("mi210-4")))] == given
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
def test_a_privileged_container_is_given_what_a_rule_names_and_not_what_it_could_reach(simulated, rules, given):
    linux = {"devices": [NODE_OF_GPU_0], "resources": {"devices": rules}}
    spec = {"process": PRIVILEGED, "linux": linux}

    assert [gpu.number for gpu in gpus_in_spec(spec, locate_gpus(simulated("mi210-4")))] == given
    assert names_gpus(spec) is bool(given)


@pytest.mark.parametrize(("profile", "given"), [("mi210-4", [0]), ("no-driver", [])])
def test_without_a_driver_a_spec_opens_no_gpu(simulated, profile, given):
    spec = {"linux": {"devices": [NODE_OF_GPU_0]}}

    assert [gpu.number for gpu in find_given_gpus(simulated(profile), spec)] == given


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
