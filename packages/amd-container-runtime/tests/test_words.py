"""The launcher's words and options are those of python: nothing that python would look at goes past it to runc.

A check that is added to a container start fails the first test here, until there are an example and a word for it.
"""

from __future__ import annotations

import itertools
import json
import os
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amd_container_runtime import create
from amd_container_runtime.create import add_requested_gpus
from amd_container_runtime.report import Log
from amd_container_runtime.runc import COMMAND_VALUES, GLOBAL_VALUES, parse_call
from amd_device_spec.oci import ANNOTATION, maker_for
from amd_device_spec.request import requested_gpus
from amd_device_spec.settings import Settings
from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_discovery.choices.oci_spec import names_gpus
from amdgpu_discovery.errors import FileError

SCRIPT = os.path.join(os.path.dirname(__file__), "../src/scripts/amd-container-runtime")
# What an engine writes for a container that has nothing to do with GPUs, and with every list that is looked at.
ORDINARY = {
    "ociVersion": "1.2.0",
    "process": {
        "user": {"uid": 0, "gid": 0},
        "args": ["sh"],
        "env": ["PATH=/bin"],
        "capabilities": {"bounding": ["CAP_MKNOD", "CAP_SYS_ADMIN"]},
    },
    "mounts": [{"destination": "/proc", "type": "proc", "source": "proc", "options": ["bind"]}],
    "hooks": {"createRuntime": [{"path": "/net", "args": ["/net"]}]},
    "annotations": {"theirs": "x"},
    "linux": {
        "resources": {
            "devices": [
                {"allow": False, "access": "rwm"},
                {"allow": True, "type": "c", "major": 1, "minor": 5, "access": "rwm"},
                {"allow": True, "type": "b", "major": 8, "minor": 0, "access": "r"},
                {"allow": False, "type": "c", "major": 10, "minor": 229, "access": "rwm"},
            ]
        },
        "namespaces": [{"type": "cgroup"}, {"type": "pid", "path": "/proc/1/ns/pid"}],
        "devices": [{"path": "/dev/fuse", "type": "c", "major": 10, "minor": 229, "fileMode": 438, "uid": 0, "gid": 0}],
    },
}

RULES = '{"linux": {"resources": {"devices": [%s]}}}'
# Where a container start looks before it leaves a container alone, each with what makes it go on.
LOOKED_AT = {
    "process.env[] == AMD_VISIBLE_DEVICES": '{"process": {"env": ["AMD_VISIBLE_DEVICES="]}}',
    "process.env[] startswith DOCKER_RESOURCE_": '{"process": {"env": ["DOCKER_RESOURCE_GPU=0x1"]}}',
    "process.env[] startswith AMD_REQUIRE_": '{"process": {"env": ["AMD_REQUIRE_GFX=gfx=gfx942"]}}',
    "process.env[] == AMD_VRAM": '{"process": {"env": ["AMD_VRAM=8GiB"]}}',
    "process.env[] startswith SLURM": '{"process": {"env": ["SLURM_STEP_GPUS=0,1"]}}',
    "annotations.com.amd.container-toolkit.edits": '{"annotations": {"com.amd.container-toolkit.edits": "{}"}}',
    "annotations.run.oci.keep_original_groups": '{"annotations": {"run.oci.keep_original_groups": "1"}}',
    "linux.devices[].major": '{"linux": {"devices": [{"path": "/dev/x", "type": "c", "major": 226, "minor": 1}]}}',
    # A rule is looked at when it is one that allows; each of these is one by another of its keys.
    "linux.resources.devices[].major": RULES % '{"allow": true, "type": "c", "major": -1}',
    "linux.resources.devices[].type": RULES % '{"allow": true, "type": "a", "major": 1}',
    "linux.resources.devices[].allow": RULES % '{"allow": true}',
}
# The ways to more of these, and what only makes a container's rule less.
ON_THE_WAY = {
    *("process", "process.env", "process.capabilities", "linux", "linux.devices", "linux.resources", "annotations"),
    *("linux.resources.devices", "process.capabilities.bounding"),
}


class Traced(dict):
    """An object of a spec that notes which of its keys are asked for."""

    def __init__(self, fields, place, looked_at):
        self.place = place
        self.looked_at = looked_at
        super().__init__({key: traced(value, f"{place}.{key}".lstrip("."), looked_at) for key, value in fields.items()})

    def note(self, key):
        self.looked_at.add(f"{self.place}.{key}".lstrip("."))

    def get(self, key, default=None):
        self.note(key)
        return super().get(key, default)

    def __getitem__(self, key):
        self.note(key)
        return super().__getitem__(key)

    def __contains__(self, key):
        self.note(key)
        return super().__contains__(key)


class TracedText(str):
    """A text of a spec that notes what it is compared with."""

    __slots__ = ("looked_at", "place")

    def __hash__(self):
        return str.__hash__(self)

    def __eq__(self, other):
        self.looked_at.add(f"{self.place} == {other}")
        return str.__eq__(self, other)

    def startswith(self, *others):
        self.looked_at.add(f"{self.place} startswith {others[0]}")
        return str.startswith(self, *others)

    def partition(self, separator):
        return tuple(traced(part, self.place, self.looked_at) for part in str.partition(self, separator))


def traced(value, place, looked_at):
    if isinstance(value, dict):
        return Traced(value, place, looked_at)
    if isinstance(value, list):
        return [traced(entry, f"{place}[]", looked_at) for entry in value]
    if isinstance(value, str) and place == "process.env[]":
        text = TracedText(value)
        text.place, text.looked_at = place, looked_at
        return text
    return value


def test_every_place_where_a_start_looks_has_an_example(runtime, monkeypatch):
    """Fails where a check is added to a container start: give it an example here and the launcher a word."""
    Tracker(runtime.host).enable()
    looked_at = set()
    monkeypatch.setattr(create, "read_spec", lambda *_, **__: traced(ORDINARY, "", looked_at))
    call = parse_call(["create", "--bundle", str(runtime.bundle), "c1"])

    spec = add_requested_gpus(call, runtime.host, Settings(), Log(runtime.host), "/usr/sbin/runc")

    assert maker_for(spec) == ""
    assert looked_at - ON_THE_WAY == set(LOOKED_AT)


EXAMPLES = list(LOOKED_AT.values())
MORE_EXAMPLES = [
    '{"process": {"env": ["SLURM_JOB_ID=7", "SLURM_JOB_GPUS=0"]}}',
    r'{"process": {"env": ["\u0041MD_VISIBLE_DEVICES=0"]}}',
    '{\n "path": "/dev/gpu",\n "major": 226\n}',
    '{"major"\n:\n226}',
    '{"Major":226}',
    '{"major":"226"}',
    '{"major":22.6e1}',
    '{"major":null}',
    '{"allow":true,"type":"c","minor":131,"access":"rwm"}',
    '{"allow":true,"type":"c","access":"rwm"}',
    '{"allow":true,"type":"a","access":"rwm"}',
    '{"access":"rwm","allow":true}',
    '{"allow":true,"access":"rwm"}',
    '{"allow"\n:\ttrue ,\n"access":"rwm"}',
    '{"ALLOW":true}',
    '{"allow":true,"type":"c","major":1,"type":"a"}',
    '{"type":""}',
    '{"allow":true,"typB":"c","major":1,"minor":3}',
    '{"allow":true,"type":"c","mayor":1,"minor":3}',
    '{"allow":true,"type":"c","Type":"a","major":1}',
    '{"allow":true,"type":"c","major":4322}',
    '{"allow":true,"type":"c","major":0226}',
    '{"major"/**/:226}',
    '{"major":10/**/}',
    '{"type":"all"}',
    '{"type":"C"}',
]


@pytest.mark.parametrize("text", [*EXAMPLES, *MORE_EXAMPLES])
def test_a_spec_that_concerns_the_runtime_starts_python(launcher, text):
    for form in (text, text.replace(" ", ""), text.replace(" ", "\n\t")):
        launcher.config(form)

        assert launcher.run("create", "c1")[0] == "python"


@pytest.mark.parametrize("indent", [None, 1, "\t"])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_an_ordinary_container_does_not_start_python(launcher, indent, separators):
    launcher.config(json.dumps(ORDINARY, indent=indent, separators=separators))

    assert launcher.run("create", "c1")[0] == "runc"


@pytest.mark.parametrize("word", ["requests", "annotations", "major", "allow", "type"])
def test_the_launcher_has_no_word_too_many(launcher, word):
    text = launcher.path.read_text()
    before, found, behind = text.rpartition(f"${word}|")
    assert found
    launcher.path.write_text(before + behind)

    def goes_past(example):
        launcher.config(example)
        return launcher.run("create", "c1")[0] == "runc"

    assert any(goes_past(example) for example in [*EXAMPLES, *MORE_EXAMPLES])


def concerns_gpus(spec):
    """Return whether python does more with a container than to hand it on."""
    return (
        requested_gpus(spec, Settings()) is not None
        or ANNOTATION in (spec.get("annotations") or {})
        or names_gpus(spec)
        or bool(maker_for(spec))
    )


KNOWN = {
    key.casefold(): key
    for key in (
        *("process", "env", "linux", "devices", "resources", "allow", "type", "major", "minor", "access"),
        *("annotations", "capabilities", "bounding"),
    )
}


def read_as_runc(pairs):
    """Ignore the case of keys and merge a key given twice, as Go does."""
    merged = {}
    for key, value in pairs:
        name = KNOWN.get(key.casefold(), key)
        merged[name] = merge(merged.get(name), value)
    return merged


def merge(old, new):
    if isinstance(old, dict) and isinstance(new, dict):
        return read_as_runc([*old.items(), *new.items()])
    if isinstance(old, list) and isinstance(new, list):
        return [merge(before, now) for before, now in itertools.zip_longest(old[: len(new)], new)]
    return new


def read_as_crun(pairs):
    """Take the first of a key given twice, and numbers in quotes too."""
    first = dict(reversed(pairs))
    return {key: as_number(value) if key in ("major", "minor") else value for key, value in first.items()}


def as_number(value):
    return int(float(value)) if isinstance(value, (str, float)) else value


SPACE = st.sampled_from(["", "", "", " ", "\n", "\t ", "\r\n  "])
NUMBER = st.sampled_from(["226", "226", "10", "1", "-1", "null", '"226"', "226.0", "2.26e2", "2260", "128", "22"])
TYPE = st.sampled_from(['"c"', '"c"', '"b"', '"a"', '""', "null", '"all"'])
FLAG = st.sampled_from(["true", "true", "false", "null"])
ACCESS = st.sampled_from(['"rwm"', '"rw"', '"m"', '""'])
KEYS = {"allow": FLAG, "type": TYPE, "major": NUMBER, "minor": NUMBER, "access": ACCESS}


def spelled(draw, key):
    return draw(st.sampled_from([key, key, key, key, key.title(), key.upper(), f"\\u{ord(key[0]):04x}{key[1:]}"]))


@st.composite
def rules(draw):
    """Draw an object of a list of devices or rules: mostly as engines write it, sometimes as nobody does."""
    keys = draw(st.lists(st.sampled_from(list(KEYS)), max_size=6, unique=draw(st.booleans())))
    if draw(st.booleans()):
        keys = sorted(dict.fromkeys(keys), key=list(KEYS).index)
    parts = [
        f'{draw(SPACE)}"{spelled(draw, key)}"{draw(SPACE)}:{draw(SPACE)}{draw(KEYS[key])}{draw(SPACE)}' for key in keys
    ]
    return "{" + ",".join(parts) + "}"


VARIABLES = [
    "PATH=/bin",
    "SLURM_JOB_GPUS=0",
    "AMD_VISIBLE_DEVICES=0",
    r"\u0041MD_VISIBLE_DEVICES=0",
    "DOCKER_RESOURCE_GPU=0x1",
    "A=allow",
]


@st.composite
def specs(draw):
    """Draw the text of a spec."""
    lists = st.lists(rules(), max_size=3).map(",".join)
    linux = [
        *(f'"devices":{draw(SPACE)}[{draw(lists)}]' for _ in range(draw(st.integers(0, 2)))),
        *(f'"resources":{{"devices":[{draw(lists)}]}}' for _ in range(draw(st.integers(0, 2)))),
    ]
    environment = ",".join(f'"{variable}"' for variable in draw(st.lists(st.sampled_from(VARIABLES[:1]), max_size=2)))
    if draw(st.integers(0, 5)) == 0:
        environment = f'"{draw(st.sampled_from(VARIABLES))}"'
    capability = draw(st.sampled_from(["CAP_MKNOD", "CAP_SYS_ADMIN"]))
    process = f'"process":{{"env":[{environment}],"capabilities":{{"bounding":["{capability}"]}}}}'
    return f'{{{process},"linux":{{{",".join(linux)}}}}}'


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=specs())
def test_the_launcher_hands_python_every_spec_that_concerns_gpus(launcher, text):
    launcher.config(text)

    who, _ = launcher.run("create", "c1")

    readings = [json.loads(text, object_pairs_hook=read) for read in (read_as_runc, read_as_crun)]
    if any(concerns_gpus(reading) for reading in readings):
        assert who == "python"


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=specs())
def test_a_spec_that_python_reads_means_the_same_to_every_runtime(tmp_path, text):
    path = tmp_path / "config.json"
    path.write_text(text)
    try:
        spec = create.read_spec(str(path), name="config.json")
    except FileError:
        return

    for read in (read_as_runc, read_as_crun):
        assert concerns_gpus(json.loads(text, object_pairs_hook=read)) is concerns_gpus(spec)


def read_launcher(begin, end):
    """Return the part of the launcher between two texts."""
    with open(SCRIPT, encoding="utf-8") as file:
        return file.read().partition(begin)[2].partition(end)[0]


def options_behind_a_command():
    """Return the options of a start that the launcher knows, except those of one letter."""
    found = re.findall(r"-{1,2}[a-z][a-z-]*", read_launcher("create | run | restore)", "\ndone\n"))
    return sorted(set(found) - {"-d", "-e"})


def test_the_launcher_and_the_parser_know_the_same_options_in_front_of_a_command():
    rows = read_launcher("case ${word#-} in", "esac").splitlines()
    names = {row.partition(")")[0].strip() for row in rows if "value_of=" in row}

    assert sorted(" | ".join(names).split(" | ")) == sorted(GLOBAL_VALUES)


@pytest.mark.parametrize("option", sorted({*(f"--{n}" for n in COMMAND_VALUES), *options_behind_a_command(), "-d"}))
def test_the_launcher_and_the_parser_find_the_same_bundle_behind_any_option(launcher, option):
    other = launcher.root / "other"
    other.mkdir()
    (other / "config.json").write_text("{}")
    launcher.config(EXAMPLES[0])
    (launcher.bundle / "other.json").write_text("{}")

    for words in (
        ["create", option, f"--bundle={other}", "c1"],
        ["create", f"--bundle={other}", option, "--bundle=.", "c1"],
        ["create", f"--bundle={other}", option, "--bundle", ".", "c1"],
    ):
        call = parse_call(words)
        config = launcher.bundle / call.bundle / call.config
        with_gpus = config.exists() and config.read_text() == EXAMPLES[0]

        who, _ = launcher.run(*words)

        assert who == "python" or not with_gpus


@pytest.mark.parametrize("name", sorted(COMMAND_VALUES - {"b", "f", "config"}))
def test_an_option_with_a_value_is_plain_to_the_launcher(launcher, name):
    launcher.config("{}")

    assert launcher.run("create", f"--{name}", ".", "c1")[0] == "runc"
