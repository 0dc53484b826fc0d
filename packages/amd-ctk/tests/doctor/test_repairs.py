"""What doctor --fix would do on this machine, which is planned and not done here."""

from __future__ import annotations

from amd_ctk.doctor.repairs import find_repairs
from amd_ctk.doctor.run import run_checks
from amdgpu_discovery.host import Host


def test_a_node_that_all_gpus_lack_is_shown_once(machine):
    spoilt = machine("mi210-4")
    spoilt.remove("/dev/kfd")
    facts = spoilt.facts()

    # A simulated host has no udev.
    (repair,) = find_repairs(Host(), facts, run_checks(facts, only=("nodes",)))

    assert (repair.check, repair.words) == ("nodes", "have udev make missing nodes")
    assert repair.difference == "+/dev/kfd is missing although the driver has this device"
