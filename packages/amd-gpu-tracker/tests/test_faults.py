"""Killed or out of disk at any point, the tracker is whole: the next command works, and nothing granted is lost."""

from __future__ import annotations

import errno
import os
import posix
from collections.abc import Callable

import pytest

from amd_gpu_tracker.book.lock import KernelLock
from amd_gpu_tracker.claims.claim import Book, Claim
from amd_gpu_tracker.claims.reservation import reserve
from amd_gpu_tracker.errors import GpusRefused
from amdgpu_discovery.numbering import locate_gpus

# All that change something, beside opening a file that may be written: killed after one, a process leaves what it
# leaves killed before the next, whatever it reads in between.
CHANGES = (
    *("write", "fchmod", "fsync", "replace", "unlink", "mkdir", "rename", "rmdir", "chmod", "chown", "fchown", "link"),
    *("symlink", "truncate", "ftruncate", "utime", "pwrite", "writev", "setxattr", "removexattr"),
)
MAY_CHANGE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
KILLED = 77


class FullDisk:
    """Lets `spared` calls of write pass; all later ones find the disk full."""

    def __init__(self, spared: int) -> None:
        self.left = spared
        self.write = posix.write

    def __call__(self, descriptor: int, content: bytes) -> int:
        if self.left <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.left -= 1
        return self.write(descriptor, content)


def die_before(count: int) -> None:
    """Let this process be killed before its count-th change of files."""
    made = [0]

    def wrap(real: Callable[..., object], is_change: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            made[0] += bool(is_change(*arguments, **options))
            if made[0] == count:
                os._exit(KILLED)
            return real(*arguments, **options)

        return call

    def may_change(_path: object, flags: int, *_rest: object, **_options: object) -> int:
        return flags & MAY_CHANGE

    for name in ("open", *CHANGES):
        wrapped = wrap(getattr(posix, name), may_change if name == "open" else lambda *_, **__: True)
        for module in (posix, os):
            setattr(module, name, wrapped)


def run_and_die(operation: Callable[[], object], count: int) -> bool:
    """Run an operation in a process of its own that is killed at a point; return whether it got that far."""
    pid = os.fork()
    if pid == 0:
        try:
            die_before(count)
            operation()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == KILLED


def claim_of(machine, name, request):
    """Return what the runtime does, with the lock that it takes."""
    gpus = locate_gpus(machine.host)
    creator = machine.start_process()
    claim = Claim(
        holder=machine.holder(name, creator=creator),
        wanted=[gpus[number] for number in request],
        ways=("env",),
    )
    return creator, lambda: reserve(Book(machine.state, machine.processes, KernelLock), claim)


def test_a_claim_killed_anywhere_loses_nothing_and_blocks_nothing(machine):
    machine.tracker.set_accessibility("0,1", exclusive=True)
    machine.create("living", [0])
    gone = machine.create("gone", [1])
    machine.kill(gone)
    count = 1

    while True:
        creator, claim = claim_of(machine, "victim", [1])
        reached = run_and_die(claim, count)
        machine.kill(creator)

        assert machine.users() == {0: ["living"], 1: [], 2: [], 3: []}
        with pytest.raises(GpusRefused):
            machine.create("rival", [0])
        machine.kill(machine.create("next", [1]))
        if not reached:
            break
        count += 1

    assert count > 10
    machine.tracker.reset(force=True)
    assert os.listdir(machine.state.leases_directory) == []


@pytest.mark.parametrize("operation", ["enable", "disable", "reset", "exclusive", "shared"])
def test_a_command_killed_anywhere_was_done_or_was_not(machine, operation):
    def prepare() -> Callable[[], object]:
        machine.tracker.enable()
        machine.tracker.reset()
        machine.tracker.set_accessibility("0", exclusive=operation != "exclusive")
        living.append(machine.create(f"living{count}", [0]))
        if operation == "enable":
            machine.tracker.disable()
        tracker = machine.tracker
        return {
            "enable": tracker.enable,
            "disable": tracker.disable,
            "reset": tracker.reset,
            "exclusive": lambda: tracker.set_accessibility("0", exclusive=True),
            "shared": lambda: tracker.set_accessibility("0", exclusive=False),
        }[operation]

    count = 1
    living: list[int] = []
    while True:
        reached = run_and_die(prepare(), count)
        status = machine.tracker.status()

        assert status.problems == ()
        if status.enabled:
            kept = [use.container_id for use in status.gpus[0].containers] == [f"living{count}"]
            exclusive = status.gpus[0].accessibility == "exclusive"
            # A container is forgotten only by what forgets, and never before its GPU is shared.
            assert kept or (operation == "enable" and not exclusive)
        machine.tracker.reset()
        # Each process that stays is one more that the next command looks at: the last point would never be reached.
        machine.kill(living.pop())
        if not reached:
            break
        count += 1

    assert count > 5


def test_with_a_full_disk_a_claim_is_refused_and_nothing_is_lost(machine, monkeypatch):
    machine.tracker.set_accessibility("0", exclusive=True)
    machine.create("living", [0])
    before = machine.lease_files()

    monkeypatch.setattr(posix, "write", FullDisk(0))
    with pytest.raises(Exception, match="cannot be written: the disk is full"):
        machine.create("c1", [1])
    monkeypatch.undo()

    assert machine.lease_files() == before
    assert sorted(os.listdir(machine.state.leases_directory)) == before
    assert machine.users() == {0: ["living"], 1: [], 2: [], 3: []}
    machine.create("c1", [1])


@pytest.mark.parametrize("spared", range(4))
def test_a_disk_that_fills_up_on_the_way_harms_nobody(machine, monkeypatch, spared):
    machine.tracker.set_accessibility("0", exclusive=True)
    machine.create("first", [0])
    machine.create("second", [1])

    monkeypatch.setattr(posix, "write", FullDisk(spared))
    for operation in (
        lambda: machine.create("third", [0]),
        lambda: machine.create("fourth", [1, 2]),
        lambda: machine.tracker.set_accessibility("1", exclusive=True),
        machine.tracker.reset,
        machine.tracker.disable,
    ):
        try:
            operation()
        except Exception as error:
            assert "the disk is full" in str(error) or "already in use" in str(error)
    monkeypatch.undo()

    status = machine.tracker.status()
    assert status.problems == ()
    if status.enabled:
        assert status.gpus[0].accessibility == "exclusive" or not status.gpus[0].containers


def test_a_refusal_needs_no_disk(machine, monkeypatch):
    machine.tracker.set_accessibility("0", exclusive=True)
    machine.create("first", [0])
    machine.create("second", [3])

    monkeypatch.setattr(posix, "write", FullDisk(0))

    with pytest.raises(GpusRefused):
        machine.create("third", [0])


def test_enabling_killed_anywhere_leaves_no_history_that_seems_turned_off(machine_of, tmp_path):
    count, reached = 1, True
    while reached:
        machine = machine_of("mi210-4", tmp_path / str(count))
        tracker = machine.tracker
        reached = run_and_die(tracker.enable, count)

        assert tracker.recording.is_on() or not tracker.is_enabled()
        tracker.enable()
        assert tracker.recording.is_on()
        assert not os.path.exists(f"{machine.state.history_directory}.tmp")
        count += 1

    assert count > 10


def test_a_history_turned_on_again_and_killed_anywhere_is_off_or_its_readers_can_read_it(machine):
    count, reached = 1, True
    recording = machine.tracker.recording
    before = os.umask(0o077)
    try:
        while reached:
            recording.begin()
            recording.stop()
            reached = run_and_die(lambda: recording.begin(readers="everyone"), count)
            recording.begin(readers="everyone")

            opened = os.stat(f"{machine.state.history_directory}/open")
            assert (recording.is_for("everyone"), oct(opened.st_mode & 0o777)) == (True, "0o755")
            count += 1
    finally:
        os.umask(before)

    assert count > 4
