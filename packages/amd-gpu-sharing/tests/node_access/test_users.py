"""What commands are told about the nodes of GPUs."""

from __future__ import annotations

from amd_gpu_sharing.node_access.users import ReservedNodes
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_simulator import build_host


def test_a_unit_may_open_its_gpus_alone(tmp_path):
    host = build_host(tmp_path / "host", "mi210-4", bare=True)

    assert ReservedNodes(host).unit_properties(locate_gpus(host)[:1]) == [
        "DevicePolicy=closed",
        "DeviceAllow=block-* rwm",
        "DeviceAllow=/dev/kfd rw",
        "DeviceAllow=/dev/dri/renderD130 rw",
        "DeviceAllow=/dev/dri/card3 rw",
    ]


def test_card_2_comes_before_card_10(tmp_path):
    host = build_host(tmp_path / "host", "mi300a-4", bare=True)

    paths = ReservedNodes(host).paths()

    assert paths[:4] == ["/dev/kfd", "/dev/dri/card0", "/dev/dri/card1", "/dev/dri/card2"]
    assert paths[-1] == "/dev/dri/renderD159"
