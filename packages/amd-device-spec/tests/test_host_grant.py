"""What a request gets on a simulated host."""

from __future__ import annotations

import pytest

from amd_device_spec.host_grant import grant_on_host
from amd_device_spec.request import GpuRequest, is_permitted
from amd_device_spec.settings import Settings
from amdgpu_discovery.errors import DriverUnavailable, RequestError
from amdgpu_discovery.simulate import build_host, load_profile


@pytest.fixture
def host(tmp_path):
    return lambda profile: build_host(tmp_path / "host", profile, with_links=False)


def test_the_gpus_of_a_request_come_with_all_that_were_looked_at(host):
    granted, gpus = grant_on_host(GpuRequest(visible="2,0", resources={}), host("mi210-4"), Settings())

    assert [gpu.number for gpu in granted.gpus] == [0, 2]
    assert [gpu.number for gpu in gpus] == [0, 1, 2, 3]


def test_a_container_that_asks_for_nothing_gets_nothing_and_needs_no_driver(host):
    granted, gpus = grant_on_host(None, host("no-driver"), Settings())

    assert (granted.gpus, gpus) == ((), [])


def test_a_request_for_gpus_needs_a_driver(host):
    with pytest.raises(DriverUnavailable):
        grant_on_host(GpuRequest(visible="all", resources={}), host("no-driver"), Settings())


def test_a_resource_of_another_kind_needs_no_driver(host):
    request = GpuRequest(visible=None, resources={}, unadvertised=(("FPGA", "0x12345678"),))

    assert grant_on_host(request, host("no-driver"), Settings())[0].gpus == ()


def test_a_gpu_that_kfd_does_not_list_is_the_reason_of_a_refusal(host):
    profile = load_profile("rx7900xtx-raphael").with_gpu(1, partitions=0)

    with pytest.raises(RequestError, match="KFD"):
        grant_on_host(GpuRequest(visible="0000:6d:00.0", resources={}), host(profile), Settings())


@pytest.mark.parametrize(
    ("policy", "capabilities", "permitted"),
    [
        ("always", [], True),
        ("privileged", [], False),
        ("privileged", ["CAP_SYS_ADMIN"], True),
        ("never", ["CAP_SYS_ADMIN"], False),
    ],
)
def test_whether_the_environment_counts_is_the_hosts_choice(policy, capabilities, permitted):
    spec = {"process": {"capabilities": {"bounding": capabilities}}}

    assert is_permitted(spec, Settings(visible_devices_env=policy)) is permitted
