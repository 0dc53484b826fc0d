"""A GPU that the kernel takes away while it is tracked: its PCI function loses its driver, and its nodes are gone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kernel.containers import FIRST
from kernel.machine import Machine

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(2 * 3600)]

ON_HOST = "AMD_CTK_HOST_ROOT=/srv/followed"
DRIVER = "/sys/bus/pci/drivers/virtio-pci"
START_JOBS = f"""
for gpu in 0 1; do
  {ON_HOST} setsid amd-ctk run --gpus=$gpu --name=job-$gpu -- sleep 3000 </dev/null >/dev/null 2>&1 &
done
for i in $(seq 120); do
  {ON_HOST} amd-ctk gpu-tracker status >/tmp/status 2>&1
  grep -q job-0 /tmp/status && grep -q job-1 /tmp/status && exit
  sleep 1
done
cat /tmp/status; exit 1
"""


@pytest.fixture
def function(machine: Machine) -> Iterator[str]:
    """Return the PCI function whose driver makes the first render node; it has its driver and its nodes at the end."""
    found = machine.run("readlink -f /sys/class/drm/renderD128 | grep -o '0000:[^/]*' | tail -n 1").strip()
    yield found
    machine.run(f"[ -e {DRIVER}/{found} ] || echo {found} >{DRIVER}/bind; udevadm settle; test -c {FIRST}")


def read_status(machine: Machine) -> dict[str, Any]:
    """Return of the GPUs that are there, and of the lost ones: number, number that counts, accessibility, and jobs."""
    document = json.loads(machine.run(f"{ON_HOST} amd-ctk gpu-tracker status --json 2>/dev/null"))
    return {
        kind: [
            (
                gpu["number"],
                gpu["tracked_number"],
                gpu["accessibility"],
                [use["container_id"] for use in gpu["containers"]],
            )
            for gpu in document[kind]
        ]
        for kind in ("gpus", "lost")
    }


def test_a_gpu_that_is_unbound_is_a_row_and_the_others_keep_policy_and_jobs(machine, function):
    machine.run(f"{ON_HOST} amd-ctk gpu-tracker enable && {ON_HOST} amd-ctk gpu-tracker all exclusive")
    machine.run(START_JOBS)
    both = {"gpus": [(0, None, "exclusive", ["job-0"]), (1, None, "exclusive", ["job-1"])], "lost": []}
    assert read_status(machine) == both

    machine.run(f"echo {function} >{DRIVER}/unbind && ! test -e {FIRST}")
    code, by_number = machine.ask(f"{ON_HOST} amd-ctk run --gpus=1 -- true")
    _, by_id = machine.ask(f"{ON_HOST} amd-ctk run --gpus=0x89CAA15875FF5A43 -- true")
    lost = {"gpus": [(0, 1, "exclusive", ["job-1"])], "lost": [(0, None, "exclusive", ["job-0"])]}
    assert read_status(machine) == lost
    assert code == 1
    assert "GPU 1 now has number 0 (name GPUs by UUID" in by_number
    assert "already in use" in by_id

    machine.run(f"echo {function} >{DRIVER}/bind && udevadm settle && test -c {FIRST}")
    assert read_status(machine) == both

    machine.run("pkill -x sleep")
    machine.run(f"{ON_HOST} amd-ctk run --gpus=0-1 -- true")
