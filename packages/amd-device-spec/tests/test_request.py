"""What the environment of a container asks for, before any GPU is looked at."""

from __future__ import annotations

import pytest

from amd_device_spec.request import GpuRequest, keep_last_request, requested_gpus
from amd_device_spec.settings import Settings
from amdgpu_discovery.choices.oci_spec import holds_sys_admin
from amdgpu_discovery.errors import SpecError


def spec(*environment):
    return {"process": {"env": list(environment)}}


def requested(*environment):
    return requested_gpus(spec(*environment), Settings())


def test_an_environment_without_the_toolkits_variables_asks_for_nothing():
    assert requested("PATH=/bin", "AMD_VISIBLE_DEVICES_X=1", "HOME") is None


def test_a_spec_without_a_process_asks_for_nothing():
    assert requested_gpus({}, Settings()) is None


def test_only_the_last_visible_devices_stays_in_the_environment():
    changed = spec("A=1", "AMD_VISIBLE_DEVICES=0", "B=2", "AMD_VISIBLE_DEVICES=all")

    assert keep_last_request(changed)
    assert changed == spec("A=1", "B=2", "AMD_VISIBLE_DEVICES=all")


def test_two_equal_requests_become_one():
    changed = spec("AMD_VISIBLE_DEVICES=all", "A=1", "AMD_VISIBLE_DEVICES=all")

    assert keep_last_request(changed)
    assert changed == spec("A=1", "AMD_VISIBLE_DEVICES=all")


def test_an_environment_full_of_requests_is_read_in_one_go():
    changed = spec("AMD_VISIBLE_DEVICES=0", *["AMD_VISIBLE_DEVICES=1"] * 200_000, "A=1")

    assert keep_last_request(changed)
    assert changed == spec("AMD_VISIBLE_DEVICES=1", "A=1")


def test_a_single_request_is_left_alone():
    assert not keep_last_request(spec("AMD_VISIBLE_DEVICES=all"))


@pytest.mark.parametrize("nothing", ["", "none", "void", " NONE "])
def test_a_request_for_nothing_is_settled_without_the_host(nothing):
    request = requested(f"AMD_VISIBLE_DEVICES={nothing}", "DOCKER_RESOURCE_GPU=0x1")

    assert request == GpuRequest(visible=nothing, resources={"GPU": "0x1"})
    assert request.asks_for_nothing
    assert not request.needs_gpus


@pytest.mark.parametrize("nothing", ["", " ", "none", "void"])
def test_an_empty_resource_is_not_even_a_request(nothing):
    assert requested(f"DOCKER_RESOURCE_GPU={nothing}") is None


@pytest.mark.parametrize("value", ["dc0", "", "FPGA-1,0x12", "GPU-5f1c2a3b-0000-1000-80da-82c12ef81b5d", "0-2", "all"])
def test_words_of_a_foreign_kind_need_no_gpu_on_the_host(value):
    assert requested(f"DOCKER_RESOURCE_FPGA={value}") is None


def test_a_foreign_amount_is_not_even_a_request():
    assert requested("DOCKER_RESOURCE_SLOT=1", "DOCKER_RESOURCE_DISK=4000") is None


@pytest.mark.parametrize(
    ("environment", "needed"),
    [
        (["DOCKER_RESOURCE_FPGA=0x1234"], False),
        (["DOCKER_RESOURCE_FPGA=0x1234", "AMD_VISIBLE_DEVICES=none"], False),
        (["DOCKER_RESOURCE_FPGA=0x1234", "AMD_VISIBLE_DEVICES=0"], True),
        (["DOCKER_RESOURCE_GPU=0x1234"], True),
    ],
)
def test_a_request_may_be_about_other_devices_than_gpus(environment, needed):
    request = requested(*environment)

    assert request is not None
    assert request.needs_gpus == needed


@pytest.mark.parametrize(
    ("environment", "ids_needed"),
    [
        (["AMD_VISIBLE_DEVICES=0-2,all"], False),
        (["AMD_VISIBLE_DEVICES=0x1"], True),
        (["AMD_VISIBLE_DEVICES=0", "DOCKER_RESOURCE_GPU=0x1"], True),
        (["AMD_VISIBLE_DEVICES=" + "0," * 1_000_000 + "0x1"], False),
    ],
)
def test_ids_of_boards_are_read_only_where_one_may_be_named(environment, ids_needed):
    request = requested(*environment)

    assert request is not None
    assert request.names_identities == ids_needed


def test_of_resources_of_other_kinds_the_first_item_of_a_few_is_kept():
    addresses = ",".join(f"0000:{bus:02x}:00.0" for bus in range(256))

    request = requested(*(f"DOCKER_RESOURCE_{number}={addresses}" for number in range(20_000)))

    assert request == GpuRequest(
        visible=None, resources={}, unadvertised=tuple((str(number), "0000:00:00.0") for number in range(8))
    )


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"process": None}, "its 'process' is not an object"),
        ({"process": []}, "its 'process' is not an object"),
        ({"process": {"env": {"A": "1"}}}, "its 'process.env' is not a list"),
        ({"process": {"env": ["A=1", 7]}}, "entry 1 of its 'process.env' is not a string"),
    ],
)
def test_a_broken_environment_is_named(broken, message):
    with pytest.raises(SpecError) as refusal:
        requested_gpus(broken, Settings())

    assert refusal.value.message == message


def test_privileged_is_known_by_its_capability():
    assert holds_sys_admin({"process": {"capabilities": {"bounding": ["CAP_CHOWN", "CAP_SYS_ADMIN"]}}})
    assert not holds_sys_admin({"process": {"capabilities": {"bounding": ["CAP_CHOWN"]}}})
    assert not holds_sys_admin({"process": {}})
