"""Who may open the nodes, by their modes and groups."""

from __future__ import annotations

import pytest

from amd_ctk.doctor.checks.gpus import check_node_access
from amd_ctk.doctor.checks.kernel import check_user_namespace
from amd_ctk.doctor.facts.all import Facts
from amd_ctk.doctor.facts.cdi import CdiFacts
from amd_ctk.doctor.facts.docker import DockerFacts
from amd_ctk.doctor.facts.gpus import GpuFacts
from amd_ctk.doctor.facts.kernel import KernelFacts
from amd_ctk.doctor.facts.toolkit import ToolkitFacts
from amdgpu_discovery.gpu import DeviceNode

KFD = DeviceNode(path="/dev/kfd", major=235, minor=0, mode=0o660, uid=0, gid=110)
RENDER = DeviceNode(path="/dev/dri/renderD128", major=226, minor=128, mode=0o660, uid=0, gid=110)
CARD = DeviceNode(path="/dev/dri/card0", major=226, minor=0, mode=0o600, uid=0, gid=44)


ONLY_ROOT = " and group render: only root may open it"


def judge(*nodes, by=check_node_access, is_user_namespace=False):
    facts = Facts(
        kernel=KernelFacts(is_user_namespace=is_user_namespace),
        gpus=GpuFacts(nodes=nodes, group_names={0: "root", 110: "render"}),
        docker=DockerFacts(),
        cdi=CdiFacts(),
        toolkit=ToolkitFacts(),
    )
    finding = by.judge(facts)
    return finding and (finding.state, finding.words)


@pytest.mark.parametrize(
    ("nodes", "finding"),
    [
        ((), None),
        ((CARD,), None),
        ((KFD, RENDER, CARD), ("ok", "the nodes are open to group render")),
        ((KFD.replace(mode=0o666), RENDER.replace(mode=0o666)), ("ok", "the nodes are open to everyone")),
        ((KFD.replace(mode=0o666), RENDER), ("ok", "the nodes are open to group render")),
        ((KFD.replace(gid=44), RENDER), ("bad", "the nodes belong to several groups: 44, render")),
        ((KFD, RENDER.replace(mode=0o600)), ("bad", f"/dev/dri/renderD128 has mode 0600{ONLY_ROOT}")),
        ((KFD.replace(mode=0o640), RENDER), ("bad", f"/dev/kfd has mode 0640{ONLY_ROOT}")),
        ((KFD.replace(gid=0), RENDER), ("bad", "/dev/kfd has mode 0660 and group root: only root may open it")),
        ((KFD.replace(gid=0, mode=0o666), RENDER), ("ok", "the nodes are open to group render")),
    ],
)
def test_the_group_of_every_node_has_to_be_one(nodes, finding):
    assert judge(*nodes) == finding


@pytest.mark.parametrize(
    ("nodes", "state"), [((KFD, RENDER, CARD.replace(gid=65534)), "ok"), ((KFD, RENDER.replace(gid=65534)), "bad")]
)
def test_a_card_may_be_closed_in_a_user_namespace_because_programs_compute_without(nodes, state):
    assert judge(*nodes, by=check_user_namespace, is_user_namespace=True)[0] == state
