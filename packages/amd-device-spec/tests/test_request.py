"""What the environment of a container asks for, and what a host makes of it."""

from __future__ import annotations

import pytest

from amd_device_spec.errors import SpecError
from amd_device_spec.request import (
    GpuRequest,
    Grant,
    grant,
    is_privileged,
    keep_last_request,
    requested_gpus,
)
from amd_device_spec.swarm_request import VramRequest
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.location import GpuLocation, PciAddress

KINDS = ("AMD_GPU", "GPU", "GPU_COMPUTE")
IDS = (0xEA35F57CC80DEB35, 0x89CAA15875FF5A43, 0x6E32F10EFC982B4C, 0x12FE4F7FDAF06B9)
GPUS = [
    GpuLocation(
        number=number,
        pci_address=PciAddress(domain=0, bus=bus, device=0, function=0),
        render_minor=128 + number,
        card_minor=number,
        kfd_node=2 + number,
        kfd_unique_id=IDS[number],
        pci_unique_id=IDS[number],
        partition_rank=0,
        partition_total=1,
    )
    for number, bus in enumerate((0x03, 0x26, 0x43, 0x63))
]


def spec(*environment):
    return {"process": {"env": list(environment)}}


def granted(*environment, **options):
    request = requested_gpus(spec(*environment), KINDS)
    assert request is not None
    answer = grant(request, GPUS, swarm_kinds=KINDS, **options)
    return [gpu.number for gpu in answer.gpus], list(answer.notes)


def test_an_environment_without_our_variables_asks_for_nothing():
    assert requested_gpus(spec("PATH=/bin", "AMD_VISIBLE_DEVICES_X=1", "HOME"), KINDS) is None


def test_a_spec_without_a_process_asks_for_nothing():
    assert requested_gpus({}, KINDS) is None


def test_the_last_visible_devices_counts():
    assert granted("AMD_VISIBLE_DEVICES=0", "AMD_VISIBLE_DEVICES=2-3") == ([2, 3], [])


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
    request = requested_gpus(spec(f"AMD_VISIBLE_DEVICES={nothing}"), KINDS)

    assert request == GpuRequest(visible=nothing, resources={})
    assert request.asks_for_nothing


def test_an_unknown_gpu_is_refused_with_what_exists():
    with pytest.raises(RequestError) as refusal:
        granted("AMD_VISIBLE_DEVICES=0,7")

    assert str(refusal.value) == (
        "AMD_VISIBLE_DEVICES=0,7: GPU 7 does not exist, this host has GPUs 0-3 ('amd-ctk gpu list' shows them)"
    )


def test_unknown_gpus_can_be_left_out_instead():
    assert granted("AMD_VISIBLE_DEVICES=0,7,3-1", ignore_unknown=True) == (
        [0],
        [
            "AMD_VISIBLE_DEVICES=0,7,3-1: '3-1' is not a range of GPUs",
            "AMD_VISIBLE_DEVICES=0,7,3-1: GPU 7 does not exist, this host has GPUs 0-3",
        ],
    )


def test_resources_of_swarm_are_united_and_beat_the_user():
    assert granted(
        "AMD_VISIBLE_DEVICES=all",
        "DOCKER_RESOURCE_AMD_GPU=0x6e32f10efc982b4c",
        "DOCKER_RESOURCE_GPU_COMPUTE=0x12FE4F7FDAF06B9,0xEA35F57CC80DEB35",
    ) == (
        [0, 2, 3],
        [
            (
                "AMD_VISIBLE_DEVICES=all is ignored because DOCKER_RESOURCE_AMD_GPU and DOCKER_RESOURCE_GPU_COMPUTE"
                " names GPUs"
            )
        ],
    )


def test_a_foreign_kind_with_ids_of_this_host_names_gpus():
    assert granted("DOCKER_RESOURCE_MI210=0x89CAA15875FF5A43") == ([1], [])


def test_a_foreign_kind_with_other_words_is_none_of_ours():
    assert granted("DOCKER_RESOURCE_FPGA=0x1234", "AMD_VISIBLE_DEVICES=1") == ([1], [])


def test_a_foreign_kind_never_means_numbers_or_ranges():
    assert granted("DOCKER_RESOURCE_SLOTS=0-2", "DOCKER_RESOURCE_NAMES=all", "AMD_VISIBLE_DEVICES=3") == ([3], [])


@pytest.mark.parametrize("value", ["dc0", "", "FPGA-1,0x12", "GPU-5f1c2a3b-0000-1000-80da-82c12ef81b5d", "0-2"])
def test_words_of_a_foreign_kind_need_no_gpu_on_the_host(value):
    assert requested_gpus(spec(f"DOCKER_RESOURCE_FPGA={value}"), KINDS) is None


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
    request = requested_gpus(spec(*environment), KINDS)

    assert request is not None
    assert request.needs_gpus(KINDS) == needed


def test_a_request_of_too_many_items_names_its_variable():
    with pytest.raises(RequestError) as refusal:
        granted("AMD_VISIBLE_DEVICES=" + ",".join(map(str, range(2000))), ignore_unknown=True)

    assert str(refusal.value) == (
        "AMD_VISIBLE_DEVICES=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,2...:"
        " a request of 2000 items is too long (at most 1024 are read)"
    )


def test_a_foreign_amount_is_not_even_a_request():
    assert requested_gpus(spec("DOCKER_RESOURCE_SLOT=1", "DOCKER_RESOURCE_DISK=4000"), KINDS) is None


def test_memory_that_the_node_was_not_set_up_for_is_refused():
    with pytest.raises(RequestError) as refusal:
        granted("DOCKER_RESOURCE_VRAM=4000", "AMD_VISIBLE_DEVICES=0")

    assert str(refusal.value) == (
        "DOCKER_RESOURCE_VRAM=4000 is memory of a GPU, which this node does not hand out"
        " (run 'amd-ctk swarm setup --vram' there)"
    )


def test_words_of_a_kind_called_vram_are_none_of_ours():
    assert granted("DOCKER_RESOURCE_VRAM=fast", "AMD_VISIBLE_DEVICES=1") == ([1], [])


def test_an_amount_of_our_kind_is_refused():
    with pytest.raises(RequestError) as refusal:
        granted("DOCKER_RESOURCE_GPU=2")

    assert str(refusal.value) == (
        "DOCKER_RESOURCE_GPU=2 is an amount and names no GPU"
        " (give every GPU its name in node-generic-resources of the docker daemon: GPU=0x<unique id>)"
    )


def test_an_id_this_node_does_not_have_is_refused_for_our_kind():
    with pytest.raises(RequestError, match="no GPU has the unique id 0x1234, this host has 0xEA35F57CC80DEB35"):
        granted("DOCKER_RESOURCE_AMD_GPU=0x1234")


def test_two_kinds_that_name_one_gpu_promise_more_than_there_is():
    with pytest.raises(RequestError) as refusal:
        granted("DOCKER_RESOURCE_AMD_GPU=0x6E32F10EFC982B4C", "DOCKER_RESOURCE_MI210=0x6E32F10EFC982B4C")

    assert str(refusal.value) == (
        "DOCKER_RESOURCE_AMD_GPU and DOCKER_RESOURCE_MI210 both name GPU 2, which is there once"
        " (reserve resources of one kind in a service, or name every GPU in one kind only)"
    )


def reserved_memory(*environment):
    request = requested_gpus(spec(*environment), (*KINDS, "VRAM", "VRAM_B"))
    assert request is not None
    return grant(request, GPUS, swarm_kinds=KINDS, vram_kinds=("VRAM", "VRAM_B"))


def test_an_amount_of_a_declared_kind_is_memory_of_a_gpu_yet_to_be_chosen():
    answer = reserved_memory("DOCKER_RESOURCE_VRAM=4000", "DOCKER_RESOURCE_SLOT=1", "AMD_VISIBLE_DEVICES=all")

    assert answer == Grant(
        gpus=(),
        vram=VramRequest(kind="VRAM", megabytes=4000),
        kinds=("VRAM",),
        notes=("AMD_VISIBLE_DEVICES=all is ignored because DOCKER_RESOURCE_VRAM reserves memory",),
    )


@pytest.mark.parametrize("value", ["", "0", "-1", "4e3", "4000,4000", "0x10", "9" * 20, "\u0664"])
def test_memory_that_is_no_number_of_megabytes_is_refused(value):
    with pytest.raises(RequestError, match="is not a number of megabytes"):
        reserved_memory(f"DOCKER_RESOURCE_VRAM={value}")


def test_memory_and_whole_gpus_do_not_go_together():
    with pytest.raises(RequestError) as refusal:
        reserved_memory("DOCKER_RESOURCE_VRAM=4000", "DOCKER_RESOURCE_AMD_GPU=0x6E32F10EFC982B4C")

    assert str(refusal.value) == (
        "DOCKER_RESOURCE_VRAM=4000 is memory of a shared GPU and DOCKER_RESOURCE_AMD_GPU names whole ones"
        " (reserve one or the other in a service)"
    )


def test_memory_of_two_kinds_is_refused():
    with pytest.raises(RequestError, match="DOCKER_RESOURCE_VRAM and DOCKER_RESOURCE_VRAM_B each reserve memory"):
        reserved_memory("DOCKER_RESOURCE_VRAM=4000", "DOCKER_RESOURCE_VRAM_B=1")


def test_all_on_a_host_without_gpus_is_refused():
    request = GpuRequest(visible="all", resources={})

    with pytest.raises(RequestError, match="AMD_VISIBLE_DEVICES=all: this host has no AMD GPU that can compute"):
        grant(request, [], swarm_kinds=KINDS)


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
        requested_gpus(broken, KINDS)

    assert refusal.value.message == message


def test_a_request_of_megabytes_is_not_repeated_in_full():
    with pytest.raises(RequestError) as refusal:
        granted("AMD_VISIBLE_DEVICES=" + "x" * 1_000_000)

    assert len(str(refusal.value)) < 300


def test_privileged_is_known_by_its_capability():
    assert is_privileged({"process": {"capabilities": {"bounding": ["CAP_CHOWN", "CAP_SYS_ADMIN"]}}})
    assert not is_privileged({"process": {"capabilities": {"bounding": ["CAP_CHOWN"]}}})
    assert not is_privileged({"process": {}})
