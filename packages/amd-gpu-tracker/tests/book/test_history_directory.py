"""The directory of the history is made for its readers, and the reason why it cannot be made is noted."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from amd_gpu_tracker.book.history_directory import NoSuchGroup, begin_history, is_history_for, make_history
from amd_gpu_tracker.book.lease import Lease, ProcessId
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.book.unrecorded import read_failures
from amd_gpu_tracker.watch.history.files import stop_history
from amdgpu_discovery.errors import FileError
from amdgpu_discovery.host import Host

LEASE = Lease(
    container_id="c1",
    gpus=("0000:03:00.0/0",),
    creator=ProcessId(pid=1, start=1),
    ways=("env",),
    boot_id="this",
    boot_offset=1793583800.0,
    since=1793584800.0,
    namespace="pid:[1]",
)


@pytest.fixture
def strict_umask():
    """Let no other user read what is made, as some engines do."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture
def state(tmp_path):
    made = State(Host(str(tmp_path)))
    made.prepare()
    return made


def mode(path):
    return oct(os.stat(path).st_mode & 0o777)


def obstruct(state):
    """Put a file where the directory is to be."""
    os.makedirs(os.path.dirname(state.history_directory))
    Path(state.history_directory).touch()


def test_only_root_may_read_it_and_who_is_given_it(state):
    begin_history(state)
    alone = mode(state.history_directory)
    make_history(state, readers="everyone")

    assert (alone, mode(state.history_directory)) == ("0o750", "0o755")


def test_a_history_is_only_for_the_readers_for_whom_it_was_made(state):
    before = is_history_for(state, readers="everyone")
    make_history(state, readers="everyone")

    assert (before, is_history_for(state, readers="everyone"), is_history_for(state)) == (False, True, False)


def test_a_group_that_the_system_does_not_have_is_refused(state):
    with pytest.raises(NoSuchGroup) as refused:
        make_history(state, readers="no-such-group")

    assert str(refused.value) == "this system has no group no-such-group (see 'getent group')"
    assert not os.path.exists(state.history_directory)


@pytest.mark.usefixtures("strict_umask")
def test_the_umask_of_an_engine_closes_it_to_no_reader(state):
    begin_history(state)

    assert (mode(state.history_directory), mode(f"{state.history_directory}/open")) == ("0o750", "0o755")


def test_nothing_is_recorded_where_it_was_turned_off_and_the_tracker_does_not_turn_it_on_again(state):
    begin_history(state)
    stop_history(state)
    begin_history(state)

    state.write_lease(LEASE)
    state.remove_lease(state.lease_path(LEASE.key))

    assert os.listdir(state.history_directory) == []


def test_the_reason_why_a_history_cannot_be_made_is_noted_until_it_is_made(state):
    obstruct(state)

    with pytest.raises(FileError):
        begin_history(state)
    noted = read_failures(state.run_directory)
    os.unlink(state.history_directory)
    begin_history(state)

    assert noted == {"history": f"{state.history_directory} is not a directory"}
    assert read_failures(state.run_directory) == {}
    assert state.records_history


def test_a_history_that_is_turned_off_does_not_fail(state):
    obstruct(state)
    with pytest.raises(FileError):
        begin_history(state)

    stop_history(state)

    assert read_failures(state.run_directory) == {}


def test_half_of_it_is_not_taken_for_one_that_was_turned_off(state, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "")

    with monkeypatch.context() as patched:
        patched.setattr("os.chmod", fail)
        with pytest.raises(FileError, match="history cannot be made: the disk is full"):
            begin_history(state)
    begin_history(state)

    assert state.records_history
