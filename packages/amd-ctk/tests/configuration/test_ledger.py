"""The record of what amd-ctk changed has one writer at a time, and nobody but its owner can keep it waiting."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amd_ctk.configuration.ledger import LedgerInUse, Record, open_ledger
from amdgpu_discovery.host import Host

HOLD = """
import sys
from amd_ctk.configuration.ledger import open_ledger
from amdgpu_discovery.host import Host

with open_ledger(Host(sys.argv[1]), {}):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    """Return the file that is locked."""
    return tmp_path / "var/lib/amd-container-toolkit/engine-configuration.lock"


@pytest.fixture
def hold(host: Host) -> Iterator[Callable[[], int]]:
    """Return a function that has another process hold the ledger until the end of the test; it returns its pid."""
    holders = []

    def hold() -> int:
        words = [sys.executable, "-c", HOLD, host.root]
        holder = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        holders.append(holder)
        assert holder.stdout
        assert holder.stdout.readline() == "held\n"
        return holder.pid

    yield hold
    for holder in holders:
        holder.communicate()


def test_a_second_writer_is_told_who_is_at_work(host: Host, lock: Path, hold: Callable[[], int]) -> None:
    pid = hold()

    with pytest.raises(LedgerInUse) as refused, open_ledger(host, {}, timeout=0.1):
        pass

    assert str(refused.value) == (
        f"{lock}, the lock of the record of what amd-ctk changed, was not free within 0.1 seconds: "
        f"process {pid} holds it (see what it does with 'ps -fp {pid}')"
    )


def test_a_second_writer_begins_when_the_first_has_ended(host: Host, hold: Callable[[], int]) -> None:
    with open_ledger(host, {}) as ledger:
        ledger.put("/etc/docker/daemon.json", Record(made_file=True))

    with open_ledger(host, {}, timeout=0.1) as ledger:
        assert ledger.get("/etc/docker/daemon.json").made_file
    assert hold()


def test_a_lock_on_the_directory_which_every_user_can_take_keeps_nobody_waiting(host: Host, lock: Path) -> None:
    lock.parent.mkdir(parents=True)
    descriptor = os.open(lock.parent, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)

    with open_ledger(host, {}, timeout=0.1):
        pass

    os.close(descriptor)


def test_only_its_owner_can_open_the_lock(host: Host, lock: Path) -> None:
    with open_ledger(host, {}):
        assert lock.stat().st_mode & 0o7777 == 0o600


@pytest.mark.needs("root")
def test_a_lock_that_cannot_be_opened_is_named(host: Host, lock: Path) -> None:
    lock.mkdir(parents=True)

    with pytest.raises(Exception, match=f"^{lock} cannot be opened: it is a directory$"), open_ledger(host, {}):
        pass
