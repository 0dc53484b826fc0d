"""The timer of `amd-ctk usage enable` on a Debian 13 that boots, with the packages and everything its unit forbids."""

from __future__ import annotations

import json
import shutil
import time

import pytest

from amdgpu_discovery.simulate import build_host
from support.debian_root import booted_root
from support.debs import META_PACKAGE, build_debs
from support.installed import require_root
from support.system import System

pytestmark = [pytest.mark.e2e, pytest.mark.engines]

ROOT = "/run/shared/host"
# The unit serves a simulated host; everything else in it stays in force.
DROP_IN = f"[Service]\nEnvironment=AMD_CTK_HOST_ROOT={ROOT}\nReadWritePaths=/run/shared\n"
SECONDS = 120


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    """Return a system with four MI210 that are tracked, and with the toolkit."""
    require_root()
    system = System(tmp_path_factory.mktemp("looks") / "system", booted_root())
    try:
        build_host(system.shared / "host", "mi210-4")
        for deb in build_debs(tmp_path_factory.mktemp("debs")).glob("*.deb"):
            if not deb.name.startswith(META_PACKAGE):
                shutil.copy(deb, system.shared)
        system.run("dpkg --force-unsafe-io --install /run/shared/*.deb")
        system.write("/etc/systemd/system/amd-gpu-usage.service.d/simulated.conf", DROP_IN)
        system.run(f"systemctl daemon-reload; export AMD_CTK_HOST_ROOT={ROOT}; amd-ctk gpu-tracker enable")
        yield system
    finally:
        system.stop()


def report(system):
    return json.loads(system.run(f"AMD_CTK_HOST_ROOT={ROOT} amd-ctk report --json"))


def test_packages_leave_the_timer_off_and_enable_starts_it(system):
    assert system.run("systemctl is-enabled amd-gpu-usage.timer", check=False) == "disabled\n"

    # Of the machine itself, whose history it begins.
    system.run("amd-ctk usage enable")
    assert system.run("systemctl is-active amd-gpu-usage.timer") == "active\n"
    system.run("amd-ctk usage disable")
    assert system.run("systemctl is-enabled amd-gpu-usage.timer", check=False) == "disabled\n"


def test_the_timer_looks_at_a_running_job_again_and_again(system):
    system.run("mkdir -p /run/shared/host/var/lib/prometheus/node-exporter; systemctl enable --now amd-gpu-usage.timer")
    job = f"AMD_CTK_HOST_ROOT={ROOT} setsid amd-ctk run --gpus=0 -- sleep 300 </dev/null >/dev/null 2>&1 &"
    system.run(job)

    end = time.monotonic() + SECONDS
    while report(system)["all"]["share_used"] is None:
        assert time.monotonic() < end, system.run("journalctl --no-pager -u amd-gpu-usage.service", check=False)
        time.sleep(1)

    # Oneshot: whatever its sandbox forbids would have made it fail.
    assert system.run("systemctl show -P Result amd-gpu-usage.service") == "success\n"
    metrics = system.run("cat /run/shared/host/var/lib/prometheus/node-exporter/amd-gpu.prom")
    assert 'amd_gpu_state{gpu_id="0",pci_address="0000:03:00.0",state="reserved"} 1\n' in metrics
