"""What `amd-ctk doctor --prove` asks is asked of a real KFD, behind which is no GPU."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(2 * 3600)]

PROBE = "$(find -L /usr/lib/amd-container-toolkit/current -name probe.py)"


def test_a_driver_without_gpus_has_nothing_to_prove(machine):
    code, said = machine.ask("cd /tmp && amd-ctk doctor --prove")

    assert (code, said) == (2, "this host has no AMD GPU that can compute ('amd-ctk doctor' looks for the cause)\n")


def test_kfd_answers_the_probe_and_lists_no_gpu(machine, kfd):
    answers = machine.run(f"python3 -ISB {PROBE} ''").splitlines()

    # Linux 7.2 opens KFD for nobody where there is no GPU.
    assert answers[0] == ("open /dev/kfd 0" if kfd.endswith("opens") else "open /dev/kfd 22")
    assert [answer for answer in answers if answer.startswith(("ask /dev/kfd", "listed"))] == []
    # The driver of a render node that is not AMD's has no answer to AMD's question.
    assert [answer for answer in answers if answer.startswith("device")] == []
    assert {"open /dev/dri/renderD128 0", "open /dev/dri/renderD129 0"} <= set(answers)


def test_the_device_cgroup_refuses_the_node_that_the_probe_makes(machine):
    inside = f"python3 -ISB {PROBE} 128 | grep 128"
    # As engines let containers make any node.
    allowed = (
        "--property=DevicePolicy=closed --property=DeviceAllow='/dev/dri/renderD129 rw'"
        " --property=DeviceAllow='char-drm m'"
    )

    assert machine.run(f"{inside}").splitlines()[-2:] == ["make 128 0", "foreign 128 0"]
    said = machine.run(f'systemd-run --quiet --pipe --wait {allowed} sh -c "{inside}"')
    assert said.splitlines()[-2:] == ["make 128 0", "foreign 128 1"]
