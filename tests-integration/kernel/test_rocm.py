"""What ROCm's own library does about GPUs that it may not open: the reason for a filter beside the lists of nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kernel.containers import FIRST, SECOND
from kernel.machine import Machine
from kernel.people import LAY_HARDWARE, TAKE_HARDWARE

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(2 * 3600)]

PROGRAM = "/tmp/ask-rocm.py"
# Of libhsakmt: what it answers, and the numbers of processor cores and of compute units of each node that it finds.
ASK_ROCM = """
import ctypes
library = ctypes.CDLL("libhsakmt.so.1")
system, node = (ctypes.c_uint32 * 64)(), (ctypes.c_uint32 * 1024)()
print("open", library.hsaKmtOpenKFD())
print("acquire", library.hsaKmtAcquireSystemProperties(system))
for number in range(system[0]):
    library.hsaKmtGetNodeProperties(number, node)
    print("node", node[0], node[1])
"""
ASK = f"setpriv --reuid=65534 --regid=65534 --groups=$(stat -c %g {FIRST}) python3 {PROGRAM} 2>/dev/null"
IN_SERVICE = "systemd-run --quiet --wait --pipe -p DevicePolicy=closed -p 'DeviceAllow=/dev/kfd rw'"
# The simulated host has two processors of 64 cores.
BOTH_SKIPPED = "open 0\nacquire 0\nnode 64 0\nnode 64 0\n"


@pytest.fixture(scope="module", autouse=True)
def topology(machine: Machine) -> Iterator[None]:
    """Let KFD's files say that there are two GPUs, whose nodes are of other drivers."""
    if machine.ask("ldconfig -p | grep -q libhsakmt.so.1")[0]:
        pytest.skip("this release has it inside of another library")
    machine.run(f"cat >{PROGRAM} <<'END'{ASK_ROCM}END\n{LAY_HARDWARE}")
    yield
    machine.run(TAKE_HARDWARE)


def test_rocm_skips_gpus_that_are_not_there(machine):
    machine.run("mkdir /dev/away && mv /dev/dri/renderD* /dev/away")
    try:
        seen = machine.run(ASK.replace(FIRST, "/dev/away/renderD128"))
    finally:
        machine.run("mv /dev/away/* /dev/dri && rmdir /dev/away")

    assert seen == BOTH_SKIPPED


def test_rocm_skips_gpus_that_a_device_filter_forbids(machine):
    assert machine.run(f"{IN_SERVICE} {ASK}") == BOTH_SKIPPED


def test_rocm_gives_up_at_a_gpu_that_is_closed_to_the_user(machine):
    machine.run(f"chmod 600 {SECOND}")
    try:
        seen = machine.run(ASK)
    finally:
        machine.run(f"chmod 660 {SECOND}")

    # 1 is HSAKMT_STATUS_ERROR, 20 HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED.
    assert seen == "open 1\nacquire 20\n"
