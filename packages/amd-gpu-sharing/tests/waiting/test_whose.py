"""Whose a job of root is without a service, whether it waited or not: in leases, for the report and for idle rules."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from amd_gpu_tracker.book.state import State
from support.shared_host import wait_until

ALICE, BOB = 40001, 40002
NO_LOGIN = (1 << 32) - 1
LOGIN = "/proc/self/loginuid"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root is asked who called sudo")


def log_in(uid):
    Path(LOGIN).write_text(str(uid), encoding="ascii")


def require_login(uid):
    """Skip the test where the kernel lets no process log in as this user."""
    if subprocess.run(["sh", "-c", f"echo {uid} > {LOGIN}"], stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("logging in needs CAP_AUDIT_CONTROL")


def people_of(host):
    state = State(host)
    leases = [state.read_lease(path) for path in state.lease_paths()]
    return {lease.container_id: lease.person for lease in leases if lease}


@pytest.mark.parametrize(
    ("login", "sudo", "person"),
    [
        (NO_LOGIN, "", None),
        (NO_LOGIN, str(ALICE), ALICE),
        (BOB, "", BOB),
        # A shell of root can set any SUDO_UID.
        (BOB, str(ALICE), BOB),
        # Who logs in as root may be several people.
        (0, "", None),
        (0, str(ALICE), ALICE),
    ],
)
def test_a_job_that_waited_is_of_the_same_person_as_one_that_did_not(host, job, monkeypatch, login, sudo, person):
    require_login(login)
    monkeypatch.setenv("SUDO_UID", sudo)

    first = job("at-once", "0", first=lambda: log_in(login))
    assert first.line() == "got (0,)"
    second = job("waited", "0", first=lambda: log_in(login))
    assert second.line().startswith("waiting")
    at_once = people_of(host)
    first.end()
    assert second.answer() == "got (0,)"

    assert at_once == {"at-once": person}
    wait_until(lambda: people_of(host) == {"waited": person})
