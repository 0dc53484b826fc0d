"""What is left of deleted users and groups, and rules that say one name and mean another."""

from __future__ import annotations

import time

import pytest

from amd_device_spec.settings_file import set_setting
from amd_gpu_sharing import find_departed
from amd_gpu_tracker.book.lease import BY_API, Lease, boot_offset
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.face.tracker import Tracker
from amd_gpu_tracker.leases.processes import Processes
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_simulator import build_host

# No account has this number.
GONE = 2_000_040_001


@pytest.fixture
def host(tmp_path):
    """Return four MI210 with the tracker enabled."""
    built = build_host(tmp_path / "host", "mi210-4", bare=True)
    Tracker(built).enable()
    return built


def put_job(host, job, **fields):
    processes = Processes()
    lease = Lease(
        container_id=job,
        creator=processes.myself(),
        gpus=(locate_gpus(host)[0].key,),
        ways=(BY_API,),
        since=time.time(),
        boot_offset=boot_offset(),
        boot_id=processes.boot_id,
        namespace=processes.namespace,
        person=GONE,
    )
    State(host).write_lease(lease.replace(**fields))


def test_a_job_is_named_once_and_not_what_ends_it(host):
    put_job(host, f"{GONE}/train")
    put_job(host, f"{GONE}/train.ending", reservation=f"{GONE}/train")
    put_job(host, f"{GONE}/eval.ending", reservation=f"{GONE}/eval")

    assert find_departed(host) == (f"end train --user={GONE}",)


def test_a_rule_whose_number_belongs_to_another_user_here_is_reported(host):
    set_setting(host, "users", ["everyone", "daemon=1", "root=2", "@daemon=1", "@bin=1", f"@{GONE}={GONE}"])

    assert find_departed(host) == ("users deny 2", "users deny @1", f"users deny @{GONE}")


def test_a_job_that_root_runs_is_of_an_account(host):
    put_job(host, "train", person=0)
    put_job(host, "of-a-program", person=None)

    assert find_departed(host) == ()
