"""DeviceAllow= and a job's cgroup under a real kernel: what a process may not open, no container of its may."""

from __future__ import annotations

import pytest

from kernel.containers import FIRST, ON_SIMULATED_HOST, SECOND, run_bundle
from kernel.limits import IN_JOB, IN_SERVICE, LIMITED_HOST, OPEN_BOTH, install_job

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(2 * 3600)]

# Both leave GPU 1 to a process. On this host GPU 0 says nothing to them, as KFD does.
EACH_LIMIT = pytest.mark.parametrize("limit", [IN_SERVICE, IN_JOB], ids=["service", "job"])
LOW_LEVEL = pytest.mark.parametrize("low_level", ["runc", "crun"])
OPENS_SECOND = f"{FIRST} Operation not permitted\n{SECOND} opens\n"


@pytest.fixture(scope="module", autouse=True)
def job(machine):
    """Let commands be run in a job's cgroup."""
    install_job(machine)


@EACH_LIMIT
def test_a_limited_process_opens_its_gpu_and_no_other(machine, limit):
    assert machine.run(f"{limit} {OPEN_BOTH}") == OPENS_SECOND


@EACH_LIMIT
def test_a_limited_process_is_shown_its_gpu_under_the_number_of_the_host(machine, limit):
    said = machine.run(f"{limit} env AMD_CTK_HOST_ROOT={LIMITED_HOST} amd-ctk gpu list")

    assert "\n1         0x" in said
    assert "\n0         0x" not in said
    assert "GPU 0 is hidden from this process by its device cgroup\n" in said


@EACH_LIMIT
@LOW_LEVEL
def test_a_container_of_a_limited_process_has_what_that_may_use(machine, limit, low_level):
    command = ["sh", "-c", f"ls /dev/dri; open-nodes {SECOND}; open-numbers 226:128"]

    seen = run_bundle(machine, low_level, "all", command, host=LIMITED_HOST, under=limit)

    assert seen == f"card1\nrenderD129\n{SECOND} opens\n226:128 Operation not permitted\n"


@EACH_LIMIT
def test_a_container_of_a_limited_process_is_refused_another_gpu(machine, limit):
    said = run_bundle(machine, "runc", "0", ["true"], host=LIMITED_HOST, under=limit)

    assert "AMD_VISIBLE_DEVICES=0: GPU 0 is not among the GPUs this process may use (1)" in said


def test_a_job_of_amd_ctk_in_a_unit_opens_its_gpu_and_no_other(machine, cdi):
    said = machine.run(f"{ON_SIMULATED_HOST} amd-ctk run --gpus=1 --unit -- {OPEN_BOTH}")

    assert said == f"--gpus 1 is GPU number 1; for 1 free GPU use --count 1\nGPU 1\n{OPENS_SECOND}"
