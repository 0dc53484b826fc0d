"""Whose a process is by the lines of its cgroup, which these patterns describe."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amdgpu_discovery.usage.owners import is_in_container, user_of_slice

SLICE_OF_USER = re.compile(rb"^[^:\n]*:[^:\n]*:/user\.slice/user-([0-9]{1,10})\.slice", re.MULTILINE)
CONTAINER = re.compile(rb"[0-9a-f]{64}|/lxc\.payload\.|/machine-|/job_[0-9]")
ID = b"0123456789abcdef" * 4
PIECES = [
    *(b"0::", b"1:name=systemd:", b"12:cpu,cpuacct:", b"/user.slice", b"/user-1001.slice", b"/user-.slice"),
    *(b"/user-12345678901.slice", b"/user-7", b".slice", b"/user@1001.service", b"/docker-", ID, ID[:63], b".scope"),
    *(b"/lxc.payload.web", b"/lxc.payload", b"/machine-x.scope", b"/job_", b"/job_7", b"/job_x", b"7", b":", b"\n"),
]
LINES = st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join)


@given(LINES)
@example(b"0::/user.slice/user-1001.slice/session-3.scope\n")
@example(b"/user.slice/user-1001.slice")
@example(b"0::/system.slice/x:/user.slice/user-1001.slice\n")
def test_the_user_of_a_slice_is_the_one_that_the_pattern_finds(lines):
    found = SLICE_OF_USER.search(lines)

    assert user_of_slice(lines) == (int(found[1]) if found else None)


@given(LINES)
def test_a_container_is_what_the_pattern_finds(lines):
    assert is_in_container(lines) is (CONTAINER.search(lines) is not None)


@pytest.mark.parametrize(
    ("line", "user"),
    [
        (b"0::/user.slice/user-1001.slice/session-3.scope\n", 1001),
        (b"12:pids:/system.slice\n1:name=systemd:/user.slice/user-7.slice/x\n", 7),
        (b"0::/system.slice/user-1001.slice\n", None),
        (b"0::/user.slice/user-1001\n", None),
        (b"", None),
    ],
)
def test_processes_of_a_user_are_below_the_slice_of_that_user(line, user):
    assert user_of_slice(line) == user
