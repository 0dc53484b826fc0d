"""What is wrong with a CDI spec on any machine."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amd_device_spec.cdi.validate import Problem, form_problems, format_location

NODE = {"path": "/dev/kfd", "type": "c", "major": 510, "minor": 0}
SPEC = {
    "cdiVersion": "0.7.0",
    "kind": "amd.com/gpu",
    "devices": [{"name": "0", "containerEdits": {"deviceNodes": [NODE]}}],
    "containerEdits": {
        "env": ["A=1"],
        "mounts": [{"hostPath": "/a", "containerPath": "/b", "options": ["ro"]}],
        "hooks": [{"hookName": "poststop", "path": "/bin/true", "args": ["true"], "timeout": 1}],
    },
}


def changed(location, value):
    """Return the spec with something else in one location; None takes it out."""
    spec = copy.deepcopy(SPEC)
    inner = spec
    for step in location[:-1]:
        inner = inner[step]
    if value is None:
        del inner[location[-1]]
    else:
        inner[location[-1]] = value
    return spec


def test_a_spec_that_uses_much_of_the_specification_is_valid():
    assert form_problems(SPEC) == []


@pytest.mark.parametrize(
    ("location", "value", "where", "message"),
    [
        (("kind",), None, "", "the field kind is missing"),
        (("kind",), 3, "kind", "not a string"),
        (("kind",), "amd.com", "kind", "'amd.com' is not of the form vendor/class"),
        (("kind",), "amd.com/v", "kind", "'amd.com/v' has a class that has fewer than two characters"),
        (("cdiVersion",), "9.9.9", "cdiVersion", "CDI has no version '9.9.9'"),
        (
            ("cdiVersion",),
            "0.4.0",
            "devices[0].name",
            "a name that begins with a digit needs cdiVersion 0.5.0, not 0.4.0",
        ),
        (("bogus",), 1, "bogus", "CDI has no such field"),
        (("devices",), [], "devices", "empty"),
        (("devices",), {}, "devices", "not a list"),
        (("devices", 0), "0", "devices[0]", "not an object"),
        (("devices", 0, "name"), None, "devices[0]", "the field name is missing"),
        (("devices", 0, "name"), "0 1", "devices[0].name", "'0 1' contains ' '"),
        (("devices", 0, "containerEdits"), {}, "devices[0].containerEdits", "empty"),
        (("devices", 0, "containerEdits"), {"deviceNodes": []}, "devices[0].containerEdits", "empty"),
        (
            ("devices", 0, "annotations"),
            {"A b": "c"},
            "devices[0].annotations.A b",
            "'A b' is not a word of letters, digits, '-', '_' and '.'",
        ),
        (
            ("devices", 0, "annotations"),
            {"A.com/b": "c"},
            "devices[0].annotations.A.com/b",
            "'A.com' is not a DNS name in lower case",
        ),
        (("devices", 0, "annotations"), {"b": "c" * 2**18}, "devices[0].annotations", "longer than 262144 bytes"),
        (
            ("devices", 0, "annotations"),
            {"b": "\ud800" * 2**17},
            "devices[0].annotations",
            "longer than 262144 bytes",
        ),
        (("devices", 0, "annotations"), {1: "b"}, "devices[0].annotations", "not a string"),
        (("\x1b[2J\ud800",), 1, "'\\x1b[2J\\ud800'", "CDI has no such field"),
        (("devices", 0, "annotations"), {"b": 1}, "devices[0].annotations.b", "not a string"),
        (("containerEdits", "env", 0), "A", "containerEdits.env[0]", "not of the form NAME=VALUE"),
        (
            ("containerEdits", "hooks", 0, "hookName"),
            "start",
            "containerEdits.hooks[0].hookName",
            "none of prestart, createRuntime, createContainer, startContainer, poststart, poststop",
        ),
        (("containerEdits", "hooks", 0, "path"), "true", "containerEdits.hooks[0].path", "not an absolute path"),
        (("containerEdits", "hooks", 0, "timeout"), 0, "containerEdits.hooks[0].timeout", "less than 1"),
        (("containerEdits", "mounts", 0, "hostPath"), "", "containerEdits.mounts[0].hostPath", "empty"),
        (("containerEdits", "additionalGids"), [2**32], "containerEdits.additionalGids[0]", "more than 4294967295"),
        (("containerEdits", "intelRdt"), {"closID": "a" * 4096}, "containerEdits.intelRdt.closID", "longer than 4095"),
        (
            ("devices", 0, "containerEdits", "deviceNodes", 0, "type"),
            "x",
            "devices[0].containerEdits.deviceNodes[0].type",
            "none of b, c, u, p",
        ),
        (
            ("devices", 0, "containerEdits", "deviceNodes", 0, "permissions"),
            "rx",
            "devices[0].containerEdits.deviceNodes[0].permissions",
            "not made of r, w and m",
        ),
        (
            ("devices", 0, "containerEdits", "deviceNodes", 0, "major"),
            "510",
            "devices[0].containerEdits.deviceNodes[0].major",
            "not a whole number",
        ),
    ],
)
def test_one_mistake_is_one_problem_in_its_place(location, value, where, message):
    problems = form_problems(changed(location, value))

    assert [(format_location(problem.location), problem.message) for problem in problems] == [(where, message)]


def test_a_name_that_stands_twice_is_a_problem_where_it_stands_again():
    spec = changed(("devices",), [*SPEC["devices"], *SPEC["devices"]])

    assert form_problems(spec) == [
        Problem(location=("devices", 1, "name"), message="'0' is the name of devices[0] already")
    ]


def test_two_missing_fields_are_two_problems():
    messages = {problem.message for problem in form_problems({"devices": SPEC["devices"]})}

    assert messages == {"the field cdiVersion is missing", "the field kind is missing"}


@pytest.mark.parametrize("spec", [None, [], "text", 3])
def test_a_value_that_is_no_object_is_no_spec(spec):
    assert form_problems(spec) == [Problem(location=(), message="not an object")]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*SPEC, "name", "hooks"]), inner),
    max_leaves=8,
)
PLACES = [
    ("cdiVersion",),
    ("kind",),
    ("devices",),
    ("devices", 0),
    ("devices", 0, "containerEdits"),
    ("devices", 0, "containerEdits", "deviceNodes", 0),
    ("containerEdits",),
    ("containerEdits", "hooks"),
]


@given(st.sampled_from(PLACES), JSON_VALUES)
def test_any_content_of_a_spec_ends_in_problems_and_no_traceback(location, value):
    for problem in form_problems(changed(location, value)):
        assert problem.message


def test_problems_without_number_are_not_all_named():
    assert len(form_problems({**SPEC, "devices": [1] * 5000})) == 1000
