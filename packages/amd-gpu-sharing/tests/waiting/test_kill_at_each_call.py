"""Killed at any system call, a waiter, winner, holder or canceller keeps nobody: the next is served, and alone.

The kernel stops the victim at each of its system calls. `nox -s choices` kills it at every one; here it is killed
at a few.
"""

from __future__ import annotations

import os

import pytest

from amd_gpu_tracker.face.tracker import Tracker
from support.traced import Traced

EVERY = int(os.environ.get("TRACKER_KILL_EVERY", "61"))
# Enough for the one behind to take its ticket, or to come to a lock that the victim has.
MOMENT = 0.05


@pytest.fixture(autouse=True, scope="module")
def ptrace():
    """Skip where one process may not trace another."""
    try:
        with Traced(os.getpid):
            pass
    except OSError as error:
        pytest.skip(f"ptrace is not permitted: {error}")


def wait_and_become_a_command(host):
    Tracker(host).wait("free:1+numa:0", name="victim")
    os.execv("/bin/sh", ["sh", "-c", ":"])


def wait_and_release(host):
    with Tracker(host).wait("0", name="victim"):
        pass


def hold_and_release(host):
    with Tracker(host).reserve("0", name="victim"):
        pass


def give_up(host):
    Tracker(host).wait("0", name="victim", timeout=0)


def cancel(host):
    Tracker(host).cancel("other")


def users(host):
    return {gpu.number: [use.container_id for use in gpu.containers] for gpu in Tracker(host).status().gpus}


# What the victim does, and whether another has the GPU when it begins.
LIVES = {
    "a waiter that becomes its command": (wait_and_become_a_command, True),
    "a winner that becomes its command": (wait_and_become_a_command, False),
    "a waiter in the library": (wait_and_release, True),
    "a holder that does not wait": (hold_and_release, False),
    "a waiter whose time is over": (give_up, True),
    "a canceller": (cancel, True),
}


class Scene:
    """A host of which one GPU is exclusive, and who has it."""

    def __init__(self, host, job, is_held):
        self.host = host
        self.job = job
        self.holder = Tracker(host).reserve("all", name="holder") if is_held else None
        self.other = None

    def add_other(self):
        """Let somebody wait whom the victim may cancel."""
        self.other = self.job("other", "0")
        self.other.line()

    def end_holder(self):
        if self.holder:
            self.holder.release()
            self.holder = None

    def require_next_is_served(self, next_one):
        """Assert that nothing of the victim keeps anybody."""
        self.end_holder()
        lines = [next_one.line()]
        if lines[0].startswith("waiting"):
            if self.other:
                self.end_other()
            lines.append(next_one.line())
        assert lines[-1] == "got (0,)"
        assert users(self.host) == {0: ["next"], 1: [], 2: [], 3: []}
        next_one.end()
        next_one.close()

    def end_other(self):
        """Take the place of the one who may have been cancelled."""
        line = self.other.line()
        assert line in ("got (0,)", "WaitOver: the job other was removed from the queue")
        if line.startswith("got"):
            self.other.end()


@pytest.mark.parametrize("life", LIVES)
def test_a_client_killed_at_a_system_call_keeps_nobody(host, job, life):
    operation, is_held = LIVES[life]
    # What is imported here, no victim has to import.
    require_nothing_left(host)
    calls = 1
    reached = True
    while reached:
        scene = Scene(host, job, is_held)
        if operation is cancel:
            scene.add_other()
        with Traced(lambda: operation(host)) as victim:
            reached = all(victim.step(scene.end_holder) for _ in range(calls))
            assert max(map(len, users(host).values())) <= 1
            next_one = job("next", "0")
            next_one.is_silent(MOMENT)
        scene.require_next_is_served(next_one)
        require_nothing_left(host)
        calls += EVERY

    assert calls > 20


def require_nothing_left(host):
    """Assert that all GPUs are free, and that tickets and leases of the dead are gone when the next have been here."""
    with Tracker(host).wait("all", name="last") as reservation:
        assert reservation.numbers == (0, 1, 2, 3)
    run = host.path("/run/amd-container-toolkit")
    assert Tracker(host).waiting() == []
    # What was never a lease keeps nobody; `reset` and the next boot remove it.
    assert [name for name in os.listdir(f"{run}/leases") if not name.endswith(".tmp")] == []
