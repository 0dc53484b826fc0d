"""Leases of rootless users: what they keep root from, and what they cannot do to it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from amd_gpu_tracker.book.lease import TOKEN
from amd_gpu_tracker.book.lock import LibraryLock
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.claims import accessibility, choice
from amd_gpu_tracker.claims.claim import Claim
from amd_gpu_tracker.claims.reservation import reserve
from amd_gpu_tracker.errors import GpusRefused, StateError, WaitOver
from amd_gpu_tracker.face import tracker
from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_discovery.numbering import locate_gpus
from support.line import require_line


@pytest.fixture
def rootless(machine):
    """Return the machine as a rootless user sees it."""
    return machine.as_rootless_user()


def test_a_gpu_of_a_rootless_container_is_not_made_exclusive(machine, rootless):
    rootless.create("rootless", [1, 2])
    machine.create("roots", [2, 3])

    change = machine.tracker.set_accessibility("all", exclusive=True)

    assert (change.changed, change.in_use, change.rootless) == ((0, 3), (), (1, 2))
    assert exclusive_gpus(machine) == [0, 3]


def test_a_gpu_that_a_rootless_container_had_is_made_exclusive(machine, rootless):
    machine.kill(rootless.create("rootless", [1]))

    assert machine.tracker.set_accessibility("1", exclusive=True).changed == (1,)


def test_a_rootless_container_is_given_exclusive_gpus_with_the_token_of_roots_service(machine, rootless):
    machine.tracker.set_accessibility("all", exclusive=True)
    token = machine.tracker.reserve("0,1", name="1000/train", pid=machine.start_process()).environment[TOKEN]

    def claim(container_id, request, given=token):
        gpus = locate_gpus(machine.host)
        return reserve(
            rootless.book,
            Claim(
                holder=machine.holder(container_id, creator=machine.start_process()),
                wanted=[gpus[number] for number in request],
                ways=("env",),
                environment=[f"{TOKEN}={given}"],
            ),
        )

    for request, given in (([0, 2], token), ([0], f"{token}x"), ([0], "")):
        with pytest.raises(GpusRefused, match="users get only with a reservation"):
            claim("c0", request, given)
    assert claim("c1", [0, 1])
    assert claim("c2", [0])
    with pytest.raises(GpusRefused, match="users get only with a reservation"):
        claim("c3", [0], "")


def test_an_exclusive_gpu_stays_exclusive_whatever_users_write(machine, rootless):
    rootless.create("rootless", [1])
    lease = rootless.state.lease_path(("/run/runc", "rootless"))
    content = Path(lease).read_bytes()
    rootless.poststop("rootless")
    os.unlink(lease)
    machine.tracker.set_accessibility("1", exclusive=True)
    Path(lease).write_bytes(content)

    assert machine.tracker.set_accessibility("1", exclusive=True).rootless == (1,)

    assert exclusive_gpus(machine) == [1]


def test_a_gpu_that_becomes_exclusive_under_a_rootless_claim_is_refused(machine, rootless, monkeypatch):
    def write_lease_late(state, lease):
        written(state, lease)
        if state.is_rootless:
            # Of what root does, only the end: it has looked for rootless leases before this one was there.
            policy = machine.state.read_policy()
            machine.state.write_policy(policy.with_accessibility(["0000:03:00.0/0"], exclusive=True))

    written = State.write_lease
    monkeypatch.setattr(State, "write_lease", write_lease_late)

    with pytest.raises(GpusRefused, match=r"^GPUs \[0\] are exclusive, which users get only with a reservation"):
        rootless.create("rootless", [0, 1])

    assert rootless.lease_files() == []


def test_a_rootless_claim_between_the_two_readings_of_root_keeps_the_gpu_shared(machine, rootless, monkeypatch):
    def write_policy_late(state, policy):
        written(state, policy)
        monkeypatch.undo()
        # It has read a policy in which the GPU was shared.
        machine.state.write_policy(policy.with_accessibility(["0000:03:00.0/0"], exclusive=False))
        rootless.create("rootless", [0])
        machine.state.write_policy(policy)

    written = State.write_policy
    monkeypatch.setattr(State, "write_policy", write_policy_late)

    change = machine.tracker.set_accessibility("0-1", exclusive=True)

    assert (change.changed, change.rootless) == ((1,), (0,))
    assert exclusive_gpus(machine) == [1]


def test_an_error_of_the_second_reading_keeps_the_gpus_as_they_were(machine, rootless, monkeypatch):
    def write_policy_late(state, policy):
        written(state, policy)
        monkeypatch.undo()
        rootless.state.prepare()
        Path(rootless.state.leases_directory, "x.json").write_bytes(b"{")

    machine.tracker.set_accessibility("3", exclusive=True)
    written = State.write_policy
    monkeypatch.setattr(State, "write_policy", write_policy_late)

    with pytest.raises(StateError, match="cannot be understood"):
        machine.tracker.set_accessibility("0,3", exclusive=True)

    assert exclusive_gpus(machine) == [3]


def test_the_lock_is_free_while_root_reads_what_users_wrote(machine, rootless, monkeypatch):
    def read_with_the_lock(state, processes):
        with LibraryLock(machine.state.lock_path, 0):
            looks.append(real(state, processes))
        return looks[-1]

    looks = []
    real = accessibility.read_user_leases
    monkeypatch.setattr(accessibility, "read_user_leases", read_with_the_lock)
    rootless.create("rootless", [1])

    change = machine.tracker.set_accessibility("0-1", exclusive=True)

    assert (change.changed, change.rootless) == ((0,), (1,))
    assert len(looks) == 2


def test_a_lease_that_a_user_wrote_keeps_no_exclusive_gpu_from_root(machine, rootless):
    rootless.create("enemy", [0, 1, 2, 3])
    lease = rootless.state.lease_path(("/run/runc", "enemy"))
    content = Path(lease).read_bytes()
    os.unlink(lease)
    machine.tracker.set_accessibility("all", exclusive=True)
    Path(lease).write_bytes(content)

    assert machine.tracker.reserve("auto:1", name="first").numbers == (0,)
    assert machine.tracker.reserve("free:1", name="second").numbers == (1,)


def test_for_auto_a_shared_gpu_of_a_users_container_is_shared(machine, rootless):
    rootless.create("enemy", [0, 1, 2])

    assert machine.tracker.reserve("auto:1", name="first").numbers == (3,)
    assert machine.tracker.reserve("auto:1", name="second").numbers == (0,)


def test_a_users_container_on_all_gpus_but_one_keeps_auto_from_none(machine, rootless):
    rootless.create("enemy", [0, 1, 2])

    assert machine.tracker.reserve("auto:2", name="first").numbers == (0, 3)


def test_a_shared_gpu_that_a_users_container_keeps_from_being_free_is_refused_with_what_helps(machine, rootless):
    rootless.create("enemy", [0, 1, 2, 3])
    uid = os.geteuid()

    with pytest.raises(GpusRefused) as refusal:
        machine.tracker.reserve("free:1", name="first")

    assert str(refusal.value) == (
        f"free:1: 0 of 4 GPUs are free (0-3 in use by container enemy of user {uid});"
        " 'amd-ctk run --gpus=free:1 --wait -- COMMAND' waits for one"
        f" (to leave out the containers of user {uid}, run 'sudo amd-ctk gpu-tracker ignore {uid}')"
    )
    machine.tracker.settings.ignore_user(uid)
    assert machine.tracker.reserve("free:1", name="first").numbers == (0,)


def test_a_waiter_is_told_which_user_keeps_it_waiting(machine, rootless):
    require_line()
    rootless.create("enemy", [0, 1, 2, 3])
    uid = os.geteuid()
    said = []
    # What serves those who wait asks whose process this is.
    (machine.proc / str(os.getpid()) / "status").write_text(f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n")

    with pytest.raises(WaitOver):
        machine.tracker.wait("free:1", name="first", timeout=0, tell=said.append)

    hint = f"to leave out the containers of user {uid}, run 'sudo amd-ctk gpu-tracker ignore {uid}'"
    assert said == [f"waiting for 1 GPU: 0 free of 4; {hint}"]


LET_USERS = "'sudo amd-ctk users allow NAME' lets a user reserve them with 'amd-ctk run'"
ONLY_FOR_ROOT = {
    "free:1": "free:1: GPUs 0-3 are exclusive, which users get only with a reservation",
    "auto:2": "auto:2: GPUs 0-3 are exclusive, which users get only with a reservation",
    "0": "GPUs [0] are exclusive, which users get only with a reservation",
}


@pytest.mark.parametrize(("request_", "sentence"), ONLY_FOR_ROOT.items())
def test_a_job_of_a_user_for_which_there_will_never_be_a_gpu_is_refused_at_once(
    machine, rootless, monkeypatch, request_, sentence
):
    require_line()
    machine.tracker.set_accessibility("all", exclusive=True)
    monkeypatch.setattr(tracker, "open_state", lambda *_: rootless.state)

    for ask in (Tracker(machine.host).wait, Tracker(machine.host).reserve):
        with pytest.raises(GpusRefused) as refusal:
            ask(request_, name="job")
        assert str(refusal.value) == f"{sentence} ({LET_USERS})"


def test_a_job_of_a_user_gets_a_shared_gpu_beside_exclusive_ones(machine, rootless, monkeypatch):
    require_line()
    machine.tracker.set_accessibility("0-2", exclusive=True)
    monkeypatch.setattr(tracker, "open_state", lambda *_: rootless.state)

    with Tracker(machine.host).wait("free:1", name="job") as reservation:
        assert reservation.numbers == (3,)
    with pytest.raises(GpusRefused, match=r"^free:2: GPUs 0-2 are exclusive, which users get only with a reservation"):
        Tracker(machine.host).wait("free:2", name="job")


def test_the_lock_is_free_while_users_leases_are_read_for_a_choice(machine, rootless, monkeypatch):
    def read_with_the_lock(state, processes):
        with LibraryLock(machine.state.lock_path, 0):
            return real(state, processes)

    real = accessibility.read_user_leases
    monkeypatch.setattr(accessibility, "read_user_leases", read_with_the_lock)
    monkeypatch.setattr(choice, "read_user_leases", read_with_the_lock)
    rootless.create("rootless", [0])

    assert machine.tracker.set_accessibility("auto:1", exclusive=True).changed == (1,)
    assert machine.tracker.set_accessibility("auto:1", exclusive=False).changed == (1,)


def exclusive_gpus(machine):
    return [gpu.number for gpu in machine.tracker.status().gpus if gpu.accessibility == "exclusive"]


# What users put where root reads, and the reason that root gives.
TRAPS = [
    ("pipe", "it is not a plain file"),
    ("endless", "it is a symbolic link"),
    ("device", "it is a symbolic link"),
    ("large", "it is too large"),
    ("link to itself", "it is a symbolic link"),
    ("directory", "it is a directory"),
]


@pytest.mark.parametrize(("kind", "reason"), TRAPS)
def test_a_trap_in_place_of_a_users_lease_does_not_catch_root(machine, rootless, kind, reason):
    rootless.create("rootless", [1])
    path = rootless.state.lease_path(("/run/runc", "rootless"))
    os.unlink(path)
    put_trap(path, kind)

    assert machine.tracker.status().problems == (f"the lease {path} of user {os.geteuid()} cannot be read: {reason}",)


@pytest.mark.parametrize(("kind", "reason"), TRAPS)
def test_a_trap_that_a_users_lease_names_does_not_catch_root(machine, rootless, tmp_path, kind, reason):
    put_trap(str(tmp_path / "trap"), kind)
    creator = machine.start_process()
    rootless.claim("rootless", [1], creator=creator, pid_file=str(tmp_path / "trap"))
    machine.kill(creator)
    path = rootless.state.lease_path(("/run/runc", "rootless"))
    problem = f"the lease {path} of user {os.geteuid()} cannot be judged: {reason}"

    assert machine.tracker.status().problems == (problem,)
    # Nothing proves that the container lives, and nothing that it does not.
    assert machine.users()[1] == []
    with pytest.raises(StateError, match="cannot be judged"):
        machine.tracker.set_accessibility("1", exclusive=True)
    assert machine.tracker.set_accessibility("0,2", exclusive=True).changed == (0, 2)


def put_trap(path, kind):
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "endless":
        os.symlink("/dev/zero", path)
    elif kind == "device":
        os.symlink("/dev/tty", path)
    elif kind == "link to itself":
        os.symlink(path, path)
    elif kind == "directory":
        os.mkdir(path)
    else:
        with open(path, "wb") as file:
            file.truncate(1 << 32)


def test_a_lease_of_a_time_that_no_calendar_has_is_reported(machine):
    machine.create("c1", [0])
    path = machine.state.lease_path(("/run/runc", "c1"))
    lease = json.loads(Path(path).read_bytes())
    Path(path).write_text(json.dumps({**lease, "since": 1e300}))

    (problem,) = machine.tracker.status().problems

    assert problem.startswith(f"the lease {path} cannot be understood: since is not a time")
