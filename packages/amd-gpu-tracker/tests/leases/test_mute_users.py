"""Root does not wait for a file system of a user that never answers, wherever its tracker reads files of users."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from amd_gpu_tracker.leases.container_names import find_container_names
from amd_gpu_tracker.leases.user_leases import read_user_leases
from support.mute_files import can_mount, mute_mount, slow_mount

pytestmark = [
    pytest.mark.skipif(not can_mount(), reason="no file system of FUSE can be mounted here"),
    pytest.mark.timeout(60),
]
USER = os.geteuid()
MOUNTED = "another file system is mounted there"
# Many times what the reader gives a file.
SECONDS = 20


@pytest.fixture
def user(machine):
    """Return the machine as a rootless user has it, with containers on GPUs 1 and 2."""
    made = machine.as_rootless_user()
    made.init = made.create("first", [1])
    made.create("second", [2])
    made.path = Path(made.state.lease_path(("/run/runc", "first")))
    return made


@pytest.fixture
def answer_of(tmp_path):
    """Return a function that calls another in a child, which may hang, and returns its answer."""

    def call(function):
        pid = os.fork()
        if not pid:
            try:
                (tmp_path / "answer").write_text(json.dumps(function()))
            finally:
                os._exit(0)
        end = time.monotonic() + SECONDS
        while not os.waitpid(pid, os.WNOHANG)[0]:
            if time.monotonic() > end:
                os.kill(pid, signal.SIGKILL)
                raise AssertionError("it waits for the user's file system")
            time.sleep(0.02)
        return json.loads((tmp_path / "answer").read_text())

    return call


def read(machine):
    found = read_user_leases(machine.state, machine.processes)
    return [[each.lease.container_id for each in found.proved], list(found.problems)]


@pytest.mark.parametrize("above", [1, 0])
def test_a_mount_in_the_directory_of_a_user_is_one_line(machine, user, answer_of, above):
    leases = user.path.parent
    with mute_mount(str(user.path.parents[above]), USER):
        answer = answer_of(lambda: read(machine))

    assert answer == [[], [f"the leases of user {USER} in {leases} cannot be read: {MOUNTED}"]]


def test_a_user_whose_whole_directory_is_mounted_has_no_leases(machine, user, answer_of):
    with mute_mount(str(user.path.parents[2]), USER):
        assert answer_of(lambda: read(machine)) == [[], []]


def test_a_mount_on_one_lease_leaves_the_others(machine, user, answer_of):
    with mute_mount(str(user.path), USER):
        answer = answer_of(lambda: read(machine))

    assert answer == [["second"], [f"the lease {user.path} of user {USER} cannot be read: {MOUNTED}"]]


def test_a_proof_on_a_mount_is_a_fault(machine, user, answer_of, tmp_path):
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    machine.kill(user.init)
    for path in sorted(user.path.parent.iterdir()):
        fields = json.loads(path.read_text())
        path.write_text(json.dumps({**fields, "init": None, "pid_file": f"{mounted}/pid"}))

    with mute_mount(str(mounted), USER):
        began = time.monotonic()
        proved, problems = answer_of(lambda: read(machine))

    assert proved == []
    assert [line.partition("cannot be judged: ")[2] for line in problems] == ["its file system does not answer"] * 2
    # Only the first file is waited for.
    assert time.monotonic() - began < SECONDS / 2


def test_a_slow_file_system_has_its_time_for_all_leases_of_a_user(machine, user, answer_of, tmp_path):
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    machine.kill(user.init)
    fields = json.loads(user.path.read_text())
    for number in range(100):
        path = f"{mounted}/{number}"
        user.path.with_name(f"{number}.json").write_text(json.dumps({**fields, "init": None, "pid_file": path}))

    with slow_mount(str(mounted), USER, 0.5):
        _, problems = answer_of(lambda: read(machine))

    # One for each takes much longer than `answer_of` waits.
    assert problems[-1].endswith(f"more leases of user {USER} are like these")


def test_the_name_of_a_container_on_a_mount_is_unknown(machine, user, answer_of, tmp_path):
    (tmp_path / "mounted").mkdir()
    lease = json.loads(user.path.read_text())
    user.path.write_text(json.dumps({**lease, "bundle": f"{tmp_path}/mounted/bundle"}))
    uses = [use for gpu in machine.tracker.status().gpus for use in gpu.containers]
    assert [use.container_id for use in uses] == ["first", "second"]

    with mute_mount(f"{tmp_path}/mounted", USER):
        assert answer_of(lambda: find_container_names(uses)) == {}
