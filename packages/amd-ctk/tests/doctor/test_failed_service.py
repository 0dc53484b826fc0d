"""What doctor says of a service for people that does not answer: how it ended, and what starts it again."""

from __future__ import annotations

import pytest

from amd_ctk.doctor.checks.toolkit import check_sharing
from amd_ctk.doctor.facts.all import Facts
from amd_ctk.doctor.facts.cdi import CdiFacts
from amd_ctk.doctor.facts.docker import DockerFacts
from amd_ctk.doctor.facts.gpus import GpuFacts
from amd_ctk.doctor.facts.kernel import KernelFacts
from amd_ctk.doctor.facts.toolkit import ToolkitFacts

LAST = "; the end of 'journalctl -u amd-gpu-tracker' is: ValueError: broken"
RESTART = "sudo systemctl enable amd-gpu-tracker.socket && sudo systemctl restart amd-gpu-tracker.socket"
RESET = "sudo systemctl reset-failed amd-gpu-tracker.service && sudo systemctl start amd-gpu-tracker.socket"


@pytest.mark.parametrize(
    ("state", "silence", "fix"),
    [
        ({"has_failed": True, "last_error": "ValueError: broken"}, f"has failed{LAST}", RESET),
        ({"has_failed": True}, "has failed", RESET),
        ({"has_socket": True, "last_error": "ValueError: broken"}, f"does not answer{LAST}", RESTART),
        ({}, "does not listen", RESTART),
    ],
)
def test_the_journal_is_named_with_its_last_line(state, silence, fix):
    toolkit = ToolkitFacts(has_users=True, has_systemd=True, **state)
    facts = Facts(kernel=KernelFacts(), gpus=GpuFacts(), docker=DockerFacts(), cdi=CdiFacts(), toolkit=toolkit)

    finding = check_sharing.judge(facts)

    assert finding.words == f"people may reserve GPUs, but the service that gives them out {silence}"
    assert finding.fix == fix
