"""Who takes a job out of the line without the service."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest

import amd_gpu_sharing.for_tracker  # noqa: F401 - another user cannot import it
from amd_gpu_sharing.requests import cancel_job
from amd_gpu_tracker.errors import NotPermitted
from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_simulator import build_host
from support.shared_host import put_ticket

BOB = 40002


@pytest.fixture
def host():
    """Return a host in a directory that every user may enter."""
    directory = tempfile.mkdtemp(prefix="amd-cancel-")
    os.chmod(directory, 0o755)
    built = build_host(f"{directory}/host", "mi210-8", bare=True)
    Tracker(built).enable()
    yield built
    shutil.rmtree(directory)


@pytest.mark.needs("root")
def test_the_job_of_another_user_is_not_cancelled_and_it_is_said_whose_it_is_not(host):
    put_ticket(host, "train-3", "free:4", range(4))

    pid = os.fork()
    if pid == 0:
        os.setuid(BOB)
        try:
            cancel_job(host, "train-3", None)
        except NotPermitted as error:
            os._exit(0 if error.message == "the job train-3 is another user's" else 1)
        finally:
            os._exit(2)

    assert os.waitpid(pid, 0)[1] == 0
    assert [ticket.name for ticket in Tracker(host).waiting()] == ["train-3"]
