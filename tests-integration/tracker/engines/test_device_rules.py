"""Podman's `--device-cgroup-rule` in front of an exclusive GPU: rules that open it are claims of it."""

from __future__ import annotations

import pytest

from support.cdi_engines import PodmanInBox

pytestmark = [pytest.mark.e2e, pytest.mark.engines]

RUNTIME = "/usr/bin/amd-container-runtime"
SUITES = {"Podman 5.8": "forky", "Podman 4.3": "bookworm"}


@pytest.fixture(params=SUITES)
def podman(request, box):
    """Return Podman on a machine where GPU 0, renderD130, is exclusive and in use."""
    machine = box(SUITES[request.param])
    machine.tracker("enable")
    machine.tracker("reset")
    machine.tracker("0", "exclusive")
    podman = PodmanInBox(machine, runtime=RUNTIME)
    podman.start_plain("--env=AMD_VISIBLE_DEVICES=0")
    yield podman
    podman.remove("--all")
    machine.tracker("reset")


@pytest.mark.parametrize("rule", ["c *:130 rwm", "c *:* rwm", "a *:* rwm", "a *:* m", "c 226:* r"])
def test_a_rule_that_opens_it_is_refused(podman, rule):
    refused = podman.start_plain(f"--device-cgroup-rule={rule}", check=False)

    assert refused.returncode != 0
    assert "GPUs [0] are exclusive and already in use" in refused.stderr


@pytest.mark.parametrize(
    "option", ["--device-cgroup-rule=c *:131 rwm", "--device-cgroup-rule=b *:* rwm", "--privileged"]
)
def test_a_container_that_asks_for_another_or_is_root_on_the_host_starts(podman, option):
    assert podman.start_plain(option, check=False).returncode == 0
