"""Whose a process is, and which processes a job has, is told by what the kernel says of them."""

from __future__ import annotations

import ctypes
import os

import pytest

from amd_gpu_sharing.broker.jobs.job_processes import belongs_to, find_processes
from amd_gpu_tracker.book.lease import Lease
from amd_gpu_tracker.leases.processes import Processes
from support.other_user import become
from support.shared_host import ALICE, BOB

# Of linux/sched.h.
CLONE_NEWUSER = 0x10000000
SUBORDINATE = 100_000


@pytest.fixture
def contained():
    """Return a process of Alice's user namespace that runs as a subordinate user, as in a rootless container."""
    asked, ask = os.pipe()
    told, tell = os.pipe()
    pid = os.fork()
    if not pid:
        become(ALICE)
        assert not ctypes.CDLL(None).unshare(CLONE_NEWUSER)
        os.write(ask, b"x")
        os.read(told, 1)
        os.setresuid(0, 0, 0)
        os.write(ask, b"x")
        os.read(told, 1)
        os._exit(0)
    os.read(asked, 1)
    with open(f"/proc/{pid}/uid_map", "w", encoding="ascii") as file:
        file.write(f"0 {SUBORDINATE} 1")
    os.write(tell, b"x")
    os.read(asked, 1)
    yield pid
    os.write(tell, b"x")
    os.waitpid(pid, 0)
    for each in (asked, ask, told, tell):
        os.close(each)


@pytest.mark.needs("namespaces")
def test_a_process_in_a_user_namespace_is_that_users_who_made_it(contained):
    processes = Processes()

    assert processes.uid(contained) == SUBORDINATE
    assert belongs_to(contained, ALICE, processes)
    assert not belongs_to(contained, BOB, processes)
    assert not belongs_to(contained, 0, processes)


def test_a_process_that_was_given_the_id_of_a_jobs_first_is_not_of_the_job():
    processes = Processes()
    me = processes.myself()
    lease = Lease(
        container_id="train",
        creator=me.replace(start=me.start - 1),
        gpus=(),
        ways=("api",),
        since=0.0,
        boot_offset=0.0,
        boot_id=processes.boot_id,
        namespace=processes.namespace,
    )

    assert find_processes(lease, processes).inside == frozenset()
    assert me in find_processes(lease.replace(creator=me), processes).inside
