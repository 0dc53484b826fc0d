"""One lock, taken in two ways that exclude each other."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from amd_gpu_tracker.book.lock import CommandLock, KernelLock, LibraryLock
from amd_gpu_tracker.errors import LockTimeout
from amdgpu_discovery.usage.lock_holder import read_lock_holder

HOLD = """
import sys
from amd_gpu_tracker.book.lock import CommandLock, KernelLock, LibraryLock
with {"kernel": KernelLock, "command": CommandLock, "library": LibraryLock}[sys.argv[1]](sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
"""


# A process of a session of its own, as a shell's: others ignore SIGTSTP. Its child says how often it was stopped.
STOP_WITH_THE_LOCK = """
import os, signal, sys
from amd_gpu_tracker.book.lock import CommandLock, LibraryLock
lock = {"command": CommandLock, "library": LibraryLock}[sys.argv[2]]
os.setsid()
pid = os.fork()
if not pid:
    os.setpgid(0, 0)
    with lock(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGTSTP)
        print("held", flush=True)
    print("goes on", flush=True)
    os._exit(0)
status = os.waitpid(pid, os.WUNTRACED)[1]
with lock(sys.argv[1], 0.05):
    print("stopped" if os.WIFSTOPPED(status) else "not stopped", flush=True)
os.kill(pid, signal.SIGCONT)
os.waitpid(pid, 0)
"""


WAYS = [KernelLock, CommandLock, LibraryLock]


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "gpu-tracker.lock")


@pytest.fixture
def hold(path):
    """Return a function that starts a process which holds the lock until its input ends."""
    started = []

    def start(kind):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, kind, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in started:
        process.communicate()


@pytest.mark.parametrize("held_by", ["kernel", "command", "library"])
@pytest.mark.parametrize("lock", WAYS)
def test_both_ways_exclude_each_other_and_name_the_holder(path, hold, held_by, lock):
    holder = hold(held_by)

    with pytest.raises(LockTimeout) as timeout, lock(path, 0.05):
        pass

    assert str(timeout.value) == (
        f"the GPU Tracker's lock {path} was not free within 0.05 seconds: process {holder.pid} holds it"
        f" (see what it does with 'ps -fp {holder.pid}')"
    )


@pytest.mark.parametrize("lock", WAYS)
def test_a_waiting_command_gets_the_lock_when_it_is_free(path, hold, lock):
    holder = hold("kernel")
    holder.stdin.close()

    with lock(path, 20):
        assert read_lock_holder(path) == os.getpid()

    assert read_lock_holder(path) == 0
    holder.wait()
    holder.stdin = None


@pytest.mark.parametrize("kind", ["command", "library"])
def test_ctrl_z_stops_a_command_when_it_has_given_the_lock_back(path, kind):
    command = [sys.executable, "-c", STOP_WITH_THE_LOCK, path, kind]

    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout

    assert said == "held\nstopped\ngoes on\n"


@pytest.mark.parametrize("lock", WAYS)
def test_a_lock_that_is_not_to_be_had_changes_nothing_about_signals(path, hold, lock):
    hold("kernel")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())

    with pytest.raises(LockTimeout), lock(path, 0.05):
        pass

    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


@pytest.mark.parametrize("lock", WAYS)
def test_a_killed_holder_holds_nothing(path, hold, lock):
    hold("library").kill()

    with lock(path, 20):
        pass


def test_no_alarm_is_left_for_the_program_that_we_become(path, hold):
    hold("kernel")

    with pytest.raises(LockTimeout):
        KernelLock(path, 0.05).__enter__()

    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def test_a_command_that_waited_leaves_no_alarm_for_the_program_that_it_becomes(path, monkeypatch):
    def flock(descriptor, operation):
        if operation & fcntl.LOCK_NB:
            raise BlockingIOError
        was_armed.append(signal.getitimer(signal.ITIMER_REAL)[0] > 0)
        real(descriptor, operation)

    was_armed = []
    real = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", flock)

    with KernelLock(path, 60):
        # A timer outlives exec, and SIGALRM ends a program that does not expect it.
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL

    assert was_armed == [True]


@pytest.mark.parametrize("lock", WAYS)
def test_no_ordinary_user_can_take_the_lock(path, lock):
    with lock(path):
        pass

    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_a_lock_file_that_was_taken_away_is_no_lock(path, monkeypatch):
    real = fcntl.flock
    unlinked = []

    def flock(descriptor, operation):
        real(descriptor, operation)
        if not unlinked:
            os.unlink(path)
            unlinked.append(path)

    monkeypatch.setattr(fcntl, "flock", flock)

    with KernelLock(path):
        assert os.path.exists(path)


def test_a_thread_waits_while_another_one_holds_the_lock_and_leaves_its_alarm_alone(path):
    signal.setitimer(signal.ITIMER_REAL, 1000)
    try:
        with LibraryLock(path), ThreadPoolExecutor() as pool, pytest.raises(LockTimeout):
            pool.submit(LibraryLock(path, 0.05).__enter__).result()

        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
