"""What is remembered of refusals is limited, and whatever stands in the file is shown or passed over."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from amd_gpu_tracker.book.refusal_log import LARGEST_REFUSALS_FILE, LONGEST_REFUSAL, read_refusals, record_refusal
from amd_gpu_tracker.errors import Message
from amd_gpu_tracker.watch.show.refused import format_refusals

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=3)
)
FIELDS = {"time": 1.0, "container_id": "c1", "ways": ["env"], "message": "GPUs [1] are exclusive and already in use"}


def test_a_long_refusal_is_cut_and_the_file_stays_small(machine):
    for _ in range(12):
        message = Message(text="m" * 600_000)
        record_refusal(machine.state, container_id="c" * 5000, ways=("env",), message=message)

    refusals = read_refusals(machine.state)

    assert {len(refusal.message) for refusal in refusals} == {LONGEST_REFUSAL}
    assert {len(refusal.container_id) for refusal in refusals} == {1024}
    assert os.path.getsize(machine.state.refusals_path) <= LARGEST_REFUSALS_FILE


@pytest.mark.parametrize("kind", ["pipe", "endless", "large"])
def test_a_file_that_is_none_has_no_refusals(machine, kind):
    path = machine.state.refusals_path
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "endless":
        os.symlink("/dev/zero", path)
    else:
        with open(path, "wb") as file:
            file.truncate(1 << 32)

    assert read_refusals(machine.state) == []


def test_whatever_a_line_says_is_shown_or_passed_over(machine):
    @settings(max_examples=200)
    @given(changed=st.dictionaries(st.sampled_from([*FIELDS, "more"]), ANYTHING))
    @example(changed={"time": float("inf")})
    @example(changed={"time": 1e300})
    @example(changed={"time": -1e300})
    @example(changed={"message": 5})
    @example(changed={"container_id": None})
    @example(changed={"ways": [1]})
    @example(changed={"ways": ["\x1b[2J"], "message": "\ud800"})
    def check(changed):
        with open(machine.state.refusals_path, "wb") as file:
            file.write(json.dumps({**FIELDS, **changed}).encode() + b"\n")

        shown = format_refusals(read_refusals(machine.state))

        assert all(line.isprintable() for line in shown.splitlines())

    check()


@pytest.mark.parametrize("line", [b"5", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"time":1}', b""])
def test_a_line_that_is_no_refusal_is_passed_over(machine, line):
    good = json.dumps(FIELDS).encode()
    with open(machine.state.refusals_path, "wb") as file:
        file.write(line + b"\n" + good + b"\n")

    assert [refusal.container_id for refusal in read_refusals(machine.state)] == ["c1"]


def test_people_are_shown_by_name_and_those_without_one_by_number(machine):
    message = Message(text="GPU 0 is in use by job a of {0}, and GPU 1 by job b of {40001}", people=(0, 40001))
    record_refusal(machine.state, container_id="c1", ways=("env",), message=message)

    shown = format_refusals(read_refusals(machine.state)).splitlines()

    assert shown[1:] == ["    GPU 0 is in use by job a of root, and GPU 1 by job b of user 40001"]


@pytest.mark.parametrize(
    ("message", "written"),
    [
        (
            Message(text="job a of {40001}", people=(40001,)),
            '"message":"job a of user 40001","template":"job a of {40001}","people":[40001]}',
        ),
        (Message(text="job a of {40001}"), '"message":"job a of {40001}"}'),
    ],
)
def test_only_a_refusal_with_people_is_written_with_a_template(machine, message, written):
    record_refusal(machine.state, container_id="c1", ways=("env", "cdi"), message=message)

    with open(machine.state.refusals_path, encoding="utf-8") as file:
        line = file.read()
    assert line.partition(",")[2] == f'"container_id":"c1","ways":["env","cdi"],{written}\n'
