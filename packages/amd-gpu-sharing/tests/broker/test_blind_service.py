"""A service in a container without --privileged, which may not look at processes of users."""

from __future__ import annotations

import ctypes
import os

import pytest

from amd_gpu_tracker.leases.processes import Processes
from support import shared_host
from support.shared_host import ALICE, Broker, run

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root serves other users")

# From linux/capability.h.
CAPABILITY_VERSION = 0x20080522
CAP_SYS_PTRACE = 1 << 19
LAB = 40100


def lose_sight():
    """Give up the capability that a container without --privileged lacks."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0
    # Effective and permitted capabilities, of the first 32.
    sets[0] &= ~CAP_SYS_PTRACE
    sets[1] &= ~CAP_SYS_PTRACE
    assert libc.capset(header, sets) == 0


def blind_processes(**options):
    lose_sight()
    return Processes(**options)


@pytest.fixture
def broker(host, monkeypatch):
    monkeypatch.setattr(shared_host, "Processes", blind_processes)
    made = Broker(host).start()
    yield made
    made.kill()


def test_a_blind_service_logs_at_its_start_what_it_cannot_do(broker):
    with open(broker.log, encoding="utf-8") as log:
        assert log.read().startswith(
            "limited: this service may not look at processes of users, because it lacks CAP_SYS_PTRACE: jobs are not"
            " warned, what they leave running is not found and not ended, and rules for groups may refuse their"
            " members\n"
        )


def test_a_user_refused_because_of_a_blind_service_reads_the_reason(broker, person):
    broker.set_terms("fifo", f"@lab={LAB}:gpus=1", "everyone:gpus=8")

    assert person(ALICE, run("a", "free:1")).line() == (
        "3: rules for groups decide who may reserve GPUs here, and the service cannot see whether this command runs in"
        " a user namespace (give the container of the service CAP_SYS_PTRACE)"
    )


def test_without_rules_for_groups_it_gives_gpus_out(broker, person):
    assert person(ALICE, run("a", "free:1")).line() == "got (0,)"
