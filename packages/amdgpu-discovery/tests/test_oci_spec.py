"""A container's spec is read as the runtimes read it, or refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amdgpu_discovery.errors import FileError
from amdgpu_discovery.oci_spec import read_spec


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
        ("[" * 100_000, "is not JSON: maximum recursion depth exceeded"),
        ('{"a": ' * 100_000, "is not JSON: maximum recursion depth exceeded"),
        ("[]", "is not a JSON object"),
        ("5", "is not a JSON object"),
    ],
)
def test_what_is_no_object_is_refused(read, text, complaint):
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
def test_what_has_another_type_than_in_a_spec_is_refused_where_it_is_read(read, text, complaint):
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
