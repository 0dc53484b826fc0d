"""The timer of `amd-ctk report enable` on a Debian 13 that boots, with the packages and their units as they are."""

from __future__ import annotations

import json

import pytest

from support.installed import require_root
from support.stand import Stand, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.engines]

TEXTFILES = "/var/lib/prometheus/node-exporter"


@pytest.fixture(scope="module")
def stand(tmp_path_factory):
    """Return a machine with four MI210 that are tracked."""
    require_root()
    stand = Stand(tmp_path_factory.mktemp("looks"), "trixie")
    try:
        stand.run("amd-ctk gpu-tracker enable")
        yield stand
    finally:
        stand.stop()


def test_packages_leave_the_timer_off_and_enable_starts_it(stand):
    assert stand.run("systemctl is-enabled amd-gpu-usage.timer", check=False) == "disabled\n"

    stand.run("amd-ctk report enable")
    assert stand.run("systemctl is-active amd-gpu-usage.timer") == "active\n"
    stand.run("amd-ctk report disable")
    assert stand.run("systemctl is-enabled amd-gpu-usage.timer", check=False) == "disabled\n"


def test_the_timer_samples_a_running_job(stand):
    stand.run(f"mkdir -p {TEXTFILES}; amd-ctk report enable")
    stand.run("setsid amd-ctk run --gpus=0 -- sleep 300 </dev/null >/dev/null 2>&1 &")

    wait_until(lambda: json.loads(stand.run("amd-ctk report --json"))["all"]["share_used"] is not None)

    # Oneshot: whatever its sandbox forbids would have made it fail.
    assert stand.run("systemctl show -P Result amd-gpu-usage.service") == "success\n"
    metrics = stand.run(f"cat {TEXTFILES}/amd-gpu.prom")
    assert 'amd_gpu_state{gpu_id="0",pci_address="0000:03:00.0",state="reserved"} 1\n' in metrics
    stand.run("amd-ctk report disable")
    assert stand.run(f"ls {TEXTFILES}") == ""
