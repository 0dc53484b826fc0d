"""Files of a user that never answer: who writes them, or reads a process that has them in memory, waits for good."""

from __future__ import annotations

import ctypes
import os
import signal
import tempfile

import pytest

from amd_gpu_tracker.leases.processes import Processes
from support.mute_files import can_mount, lock_memory, mute_file, mute_program
from support.other_user import become
from support.shared_host import BOB, run, users, wait_until

# Where a reader waits, `ps` of the whole machine does, too.
pytestmark = pytest.mark.skipif(not can_mount(), reason="no file system of FUSE can be mounted here")
CLONE_NEWPID = 0x20000000
# Brokers of tests that run at the same time must not wait for these files.
EVE = 40013


@pytest.fixture
def directory():
    """Return a directory that every user may enter."""
    path = tempfile.mkdtemp(prefix="amd-mute-")
    os.chmod(path, 0o755)
    yield path
    os.rmdir(path)


@pytest.fixture
def mute(directory):
    """Return a file of eve's that nobody can write."""
    with mute_file(directory, EVE) as path:
        yield path


@pytest.fixture
def locked(mute):
    """Have a process of eve's, in a pid namespace of its own, whose memory cannot be read."""
    pid = os.fork()
    if not pid:
        try:
            os.setsid()
            # Python has no name for it before 3.12.
            ctypes.CDLL(None).unshare(CLONE_NEWPID)
            if not os.fork():
                become(EVE)
                lock_memory(mute)
            os.wait()
        finally:
            os._exit(0)
    wait_until(lambda: is_locked(pid))
    yield
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def is_locked(parent):
    """Return whether the child of a process waits in the kernel, where no signal ends it, as eve's."""
    children = [each.pid for each, above in Processes().parents().items() if above == parent]
    return any(Processes().uid(pid) == EVE and state_of(pid) == "D" for pid in children)


def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0]


def test_a_job_that_cannot_be_told_is_warned_and_ended(host, broker, person, mute):
    broker.set_terms("fifo", "everyone:time=1h")
    eve = person(EVE, run("train", "0"), command=("sh", "-c", f"echo begun; exec sleep 600 2>>{mute}"))
    assert (eve.line(), eve.line()) == ("got (0,)", "begun")

    broker.pass_time(3000)
    broker.pass_time(600)

    assert eve.ended_by() == signal.SIGTERM
    wait_until(lambda: users(host) == {})


def test_a_process_whose_memory_is_locked_keeps_no_job_from_its_end_and_nobody_waiting(host, broker, person, locked):
    broker.set_terms("fifo", "everyone:time=1h")
    first = person(EVE, run("first", "0"), command=("true",))
    second = person(EVE, run("second", "1"), command=("sleep", "600"))
    assert (first.line(), second.line()) == ("got (0,)", "got (1,)")

    # A container of eve's may go on with the GPU of the first job.
    wait_until(lambda: 0 not in users(host))
    bob = person(BOB, run("b", "0"))
    assert bob.answer() == "got (0,)"

    broker.pass_time(3600)
    assert second.ended_by() == signal.SIGTERM
    wait_until(lambda: 1 not in users(host))


def test_a_program_that_does_not_say_which_file_it_is_is_ended_with_its_job(host, broker, person, directory):
    broker.set_terms("fifo", "everyone:time=1h")
    with mute_program(directory, EVE, "/usr/bin/sleep"):
        # A program of engines has this name.
        conmon = f"{directory}/conmon"
        begin = f"left=$(setsid {conmon} 600 >&- & echo $!)"
        wait = f'until [ "$(readlink /proc/$left/exe)" = {conmon} ]; do sleep 0.01; done; test -e {directory}/mute'
        eve = person(EVE, run("train", "0"), command=("sh", "-c", f"{begin}; {wait}; echo $left; exec sleep 600"))
        assert eve.line() == "got (0,)"
        left = int(eve.line())

        broker.pass_time(3600)

        assert eve.ended_by() == signal.SIGTERM
        wait_until(lambda: Processes().find(left) is None)
        wait_until(lambda: users(host) == {})
