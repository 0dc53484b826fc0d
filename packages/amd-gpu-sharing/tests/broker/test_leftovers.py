"""What a job leaves on its GPU is seen at its end, and the GPU waits until it is clean."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from amd_gpu_sharing.broker.jobs.job_processes import find_left
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.leases.processes import Processes
from amd_gpu_tracker.watch.states.find import find_states
from amdgpu_discovery.discover import find_gpus
from support.shared_host import ALICE, BOB, SECONDS, run, users, wait_until

# A job that starts a process, names it, and can end without it.
LEAVE = ("sh", "-c", "sleep 600 & echo $!; echo $AMD_CTK_RESERVATION; exec sleep 600")


def use(host, pid: int, number: int = 0) -> None:
    """Let KFD count memory of a GPU for a process."""
    directory = host.path(f"/sys/class/kfd/kfd/proc/{pid}")
    os.makedirs(directory)
    with open(f"{directory}/vram_{find_gpus(host)[number].gpu_id}", "w", encoding="ascii") as file:
        file.write(f"{4 << 30}\n")


def end_and_stop_using(host, pid: int) -> None:
    shutil.rmtree(host.path(f"/sys/class/kfd/kfd/proc/{pid}"))
    os.kill(pid, signal.SIGKILL)


def state_of(host, number: int = 0) -> tuple[str, str]:
    found = find_states(host)[number]
    return found.state, re.sub(r"process \d+", "process N", found.reason)


@pytest.fixture
def left(host, person):
    """Return the process that alice's job has left on GPU 0, and the token of that job."""
    alice = person(ALICE, run("train", "0"), command=LEAVE)
    assert alice.line() == "got (0,)"
    pid, token = int(alice.line()), alice.line()
    # The shell names it before it has become sleep.
    wait_until(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n")
    use(host, pid)
    alice.kill()
    wait_until(lambda: users(host) == {})
    yield pid, token
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@pytest.mark.needs("users' processes")
def test_a_gpu_with_a_process_of_the_ended_job_is_given_to_nobody_until_the_process_has_ended(
    host, broker, person, left
):
    wait_until(lambda: state_of(host)[0] == "dirty")
    assert state_of(host) == ("dirty", "process N (sleep of 40001) of the ended job train uses it")
    bob = person(BOB, run("next", "0"))
    assert bob.line() == "waiting for 1 GPU: 0 free of 1 that fits, GPU 0 dirty"

    end_and_stop_using(host, left[0])

    assert bob.answer() == "got (0,)"
    said = [re.sub(r"process \d+", "process N", line) for line in broker.lines() if line.startswith(("dirty", "clean"))]
    assert said == [
        "dirty: 40001/train: process N (sleep of 40001) of the ended job train uses it",
        f"clean: {find_gpus(host)[0].key}, after 40001/train",
    ]


@pytest.mark.needs("users' processes")
def test_another_users_process_with_the_token_of_a_job_does_not_make_its_gpu_dirty(host, broker, person):
    alice = person(ALICE, run("train", "0"), command=LEAVE)
    alice.line(), alice.line()
    token = alice.line()
    forged = subprocess.Popen(["sleep", "600"], env={"AMD_CTK_RESERVATION": token}, user=BOB)
    use(host, forged.pid)

    alice.kill()
    wait_until(lambda: users(host) == {})
    broker.wake()

    assert state_of(host) == ("in use", "used by process N (sleep of 40002) without a reservation")
    assert person(BOB, run("next", "0")).answer() == "got (0,)"
    forged.kill()
    forged.wait()


@pytest.mark.needs("users' processes")
def test_the_service_ends_what_is_left_if_the_administrator_wants_that(host, broker, person):
    broker.cleans = True
    broker.set_terms("fifo", "everyone")
    alice = person(ALICE, run("train", "0"), command=LEAVE)
    alice.line()
    pid = int(alice.line())
    opened = os.pidfd_open(pid)
    use(host, pid)

    alice.kill()

    signal.pidfd_send_signal(opened, 0)
    assert person(BOB, run("next", "0")).answer() == "got (0,)"
    end = time.monotonic() + SECONDS
    while Processes().find(pid) and time.monotonic() < end:
        time.sleep(0.02)
    assert Processes().find(pid) is None
    os.close(opened)


@pytest.mark.needs("users' processes")
def test_a_process_in_the_scope_of_a_job_belongs_to_it_only_if_it_is_its_owners(host, person):
    alice = person(ALICE, run("train", "0"), command=("sleep", "600"))
    alice.line()
    state = State(host)
    lease = state.read_lease(state.lease_path(("", "40001/train")))
    scope = f"amd-gpu-40001-train-{lease.creator.pid}-{lease.creator.start}.scope"
    hierarchies = [f"/sys/fs/cgroup/{name}" for name in ("pids", "freezer", "")]
    parent = next((each for each in hierarchies if os.access(f"{each}/cgroup.procs", os.W_OK)), None)
    if parent is None:
        pytest.skip("needs a cgroup that can be written to")
    made = f"{parent}/{scope}"
    os.mkdir(made)
    started = [subprocess.Popen(["sleep", "600"], env={}, user=uid) for uid in (ALICE, BOB)]
    try:
        for each in started:
            with open(f"{made}/cgroup.procs", "w", encoding="ascii") as file:
                file.write(str(each.pid))

        found = find_left(lease, [each.pid for each in started], Processes())

        assert [each.pid for each in found] == [started[0].pid]
    finally:
        for each in started:
            each.kill()
            each.wait()
        os.rmdir(made)
