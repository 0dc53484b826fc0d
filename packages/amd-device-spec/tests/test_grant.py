"""Which GPUs of a host a container's request gets, from whichever source a variable comes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amd_device_spec.request import GpuRequest, is_permitted, requested_gpus
from amd_device_spec.settings import Settings
from amd_device_spec.start import swarm_choice
from amd_device_spec.start.plan import decide_grant, grant_on_host
from amdgpu_discovery.choices.oci_spec import Grant, VramRequest
from amdgpu_discovery.errors import DriverUnavailable, RequestError
from amdgpu_discovery.gpu import GpuLocation, PciAddress, UnnumberedGpu
from amdgpu_simulator import build_host, load_profile

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
        host_total=4,
    )
    for number, bus in enumerate((0x03, 0x26, 0x43, 0x63))
]


ADDRESSES = ["0000:03:00.0", "0000:26:00.0", "0000:43:00.0", "0000:63:00.0"]
IGNORING = Settings(unknown_gpus="ignore")
BY_PCI = Settings(swarm_resource_names="pci")
SHARING = Settings(swarm_vram_resources=("VRAM", "VRAM_B"))


def decide(environment, settings=None, gpus=GPUS):
    settings = settings or Settings()
    request = requested_gpus({"process": {"env": list(environment)}}, settings)
    return Grant(gpus=()) if request is None else decide_grant(request, gpus, settings)


def granted(*environment, settings=None):
    answer = decide(environment, settings)
    return [gpu.number for gpu in answer.gpus], list(answer.notes)


def refused(*environment, settings=None, gpus=GPUS):
    with pytest.raises(RequestError) as refusal:
        decide(environment, settings, gpus)
    return str(refusal.value)


def test_the_last_visible_devices_counts():
    assert granted("AMD_VISIBLE_DEVICES=0", "AMD_VISIBLE_DEVICES=2-3") == ([2, 3], [])


def test_an_unknown_gpu_is_refused_with_what_exists():
    assert refused("AMD_VISIBLE_DEVICES=0,7") == (
        "AMD_VISIBLE_DEVICES=0,7: GPU 7 does not exist, this host has GPUs 0-3 ('amd-ctk gpu list' shows them)"
    )


def test_unknown_gpus_can_be_left_out_instead():
    assert granted("AMD_VISIBLE_DEVICES=0,7,3-1", settings=IGNORING) == (
        [0],
        [
            "AMD_VISIBLE_DEVICES=0,7,3-1: '3-1' is not a range of GPUs",
            "AMD_VISIBLE_DEVICES=0,7,3-1: GPU 7 does not exist, this host has GPUs 0-3",
        ],
    )


def test_a_thousand_unknown_gpus_are_not_a_thousand_lines_of_the_log():
    _, notes = granted("AMD_VISIBLE_DEVICES=" + ",".join(map(str, range(4, 1004))), settings=IGNORING)

    assert len(notes) == 9
    assert notes[0].endswith(": GPU 4 does not exist, this host has GPUs 0-3")
    assert notes[-1] == "AMD_VISIBLE_DEVICES: 992 more items cannot be met"


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


def test_a_resource_of_swarm_beats_the_users_numbers():
    assert granted("AMD_VISIBLE_DEVICES=0-1", "DOCKER_RESOURCE_AMD_GPU=0x6E32F10EFC982B4C,") == (
        [2],
        ["AMD_VISIBLE_DEVICES=0-1 is ignored because DOCKER_RESOURCE_AMD_GPU names GPUs"],
    )


@pytest.mark.parametrize("nothing", ["none", "void", "", " NONE "])
@pytest.mark.parametrize(
    "resource",
    ["GPU=0xEA35F57CC80DEB35", "GPU=all", "GPU=0-3", "GPU=1", "GPU=word", "GPU=0x1", "VRAM=4000", "VRAM_B=lots"],
)
def test_a_user_who_wants_no_gpu_gets_none_whatever_the_image_says(nothing, resource):
    gpus, _ = granted(f"DOCKER_RESOURCE_{resource}", f"AMD_VISIBLE_DEVICES={nothing}", settings=SHARING)

    assert gpus == []


def test_the_log_says_that_a_resource_was_ignored_for_none():
    assert granted("AMD_VISIBLE_DEVICES=none", "DOCKER_RESOURCE_GPU=all", "DOCKER_RESOURCE_AMD_GPU=0x1") == (
        [],
        ["ignoring DOCKER_RESOURCE_AMD_GPU and DOCKER_RESOURCE_GPU because AMD_VISIBLE_DEVICES asks for no GPU"],
    )


@pytest.mark.parametrize("value", ["all", "ALL", "0-3", "0xEA35F57CC80DEB35,all", "amd.com/gpu=all", "-1", "all,2-3"])
def test_all_and_ranges_of_an_image_never_beat_the_user(value):
    assert granted("AMD_VISIBLE_DEVICES=0", f"DOCKER_RESOURCE_GPU={value}") == (
        [0],
        [f"DOCKER_RESOURCE_GPU={value} does not name GPUs as Swarm does, and is ignored"],
    )


def test_all_of_an_image_adds_nothing_to_what_swarm_chose():
    assert granted("DOCKER_RESOURCE_AMD_GPU=0x6E32F10EFC982B4C", "DOCKER_RESOURCE_GPU=all") == (
        [2],
        ["DOCKER_RESOURCE_GPU=all does not name GPUs as Swarm does, and is ignored"],
    )


def test_all_of_an_image_alone_is_refused_with_what_to_write_instead():
    assert refused("DOCKER_RESOURCE_GPU=all") == (
        "DOCKER_RESOURCE_GPU=all does not name GPUs as Swarm does"
        " (ask for GPUs with AMD_VISIBLE_DEVICES, and leave DOCKER_RESOURCE_GPU to Swarm)"
    )


def test_a_resource_that_does_not_count_can_be_left_out_instead():
    assert granted("DOCKER_RESOURCE_GPU=all", settings=IGNORING) == (
        [],
        ["DOCKER_RESOURCE_GPU=all does not name GPUs as Swarm does, and is ignored"],
    )


def test_an_address_does_not_count_where_the_node_advertises_unique_ids():
    assert granted("AMD_VISIBLE_DEVICES=0", "DOCKER_RESOURCE_GPU=0000:26:00.0") == (
        [0],
        [
            (
                "DOCKER_RESOURCE_GPU=0000:26:00.0 names a GPU by PCI address, and this node advertises GPUs by unique"
                " id, and is ignored"
            )
        ],
    )
    assert refused("DOCKER_RESOURCE_GPU=0000:26:00.0") == (
        "DOCKER_RESOURCE_GPU=0000:26:00.0 names a GPU by PCI address, and this node advertises GPUs by unique id"
        " (if it does not, run 'sudo amd-ctk config set swarm-resource-names pci' on that node)"
    )


def test_a_unique_id_does_not_count_where_the_node_advertises_addresses():
    assert granted("DOCKER_RESOURCE_GPU=0000:26:00.0,0000:63:00.0:p0", settings=BY_PCI) == ([1, 3], [])
    assert refused("DOCKER_RESOURCE_GPU=0xEA35F57CC80DEB35", settings=BY_PCI).startswith(
        "DOCKER_RESOURCE_GPU=0xEA35F57CC80DEB35 names a GPU by unique id, and this node advertises GPUs by PCI address"
    )


def test_a_kind_that_the_node_does_not_advertise_adds_nothing_to_what_swarm_chose():
    assert granted("DOCKER_RESOURCE_AMD_GPU=0x6E32F10EFC982B4C", "DOCKER_RESOURCE_ANYTHING=0000:26:00.0") == (
        [2],
        [
            (
                "DOCKER_RESOURCE_ANYTHING=0000:26:00.0 is of a kind by which this node does not advertise GPUs, and is"
                " ignored"
            )
        ],
    )


def test_a_kind_that_the_node_does_not_advertise_never_beats_the_user():
    assert granted("AMD_VISIBLE_DEVICES=3", "DOCKER_RESOURCE_MI210=0x89CAA15875FF5A43,0x1") == (
        [3],
        [
            (
                "DOCKER_RESOURCE_MI210=0x89CAA15875FF5A43 is of a kind by which this node does not advertise GPUs, and"
                " is ignored"
            )
        ],
    )


def test_a_task_whose_kind_is_not_in_the_settings_does_not_start_without_its_gpu():
    assert refused("DOCKER_RESOURCE_MI210=0x89CAA15875FF5A43") == (
        "DOCKER_RESOURCE_MI210=0x89CAA15875FF5A43 is of a kind by which this node does not advertise GPUs"
        " (if it does, add the kind to swarm-resources with 'sudo amd-ctk config set' on that node)"
    )


def test_a_foreign_kind_with_other_words_is_no_request():
    assert granted("DOCKER_RESOURCE_FPGA=0x1234", "AMD_VISIBLE_DEVICES=1") == ([1], [])
    assert granted("DOCKER_RESOURCE_FPGA=0x1234") == ([], [])


def test_a_foreign_kind_never_means_numbers_or_ranges():
    assert granted("DOCKER_RESOURCE_SLOTS=0-2", "DOCKER_RESOURCE_NAMES=all", "AMD_VISIBLE_DEVICES=3") == ([3], [])


def test_no_resource_counts_where_the_node_advertises_none():
    settings = Settings(swarm_resources=())

    assert granted("AMD_VISIBLE_DEVICES=1", "DOCKER_RESOURCE_GPU=0xEA35F57CC80DEB35", settings=settings)[0] == [1]


def test_a_request_of_too_many_items_names_its_variable():
    request = "AMD_VISIBLE_DEVICES=" + ",".join(map(str, range(2000)))

    assert refused(request, settings=IGNORING) == (
        "AMD_VISIBLE_DEVICES=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,2...:"
        " a request of 2000 items is too long (at most 1024 are read)"
    )


def test_memory_that_the_node_was_not_set_up_for_is_refused():
    assert refused("DOCKER_RESOURCE_VRAM=4000", "AMD_VISIBLE_DEVICES=0") == (
        "DOCKER_RESOURCE_VRAM=4000 is memory of a GPU, which this node does not hand out"
        " (run 'sudo amd-ctk swarm setup --vram' on that node)"
    )


def test_words_of_a_kind_called_vram_are_no_request():
    assert granted("DOCKER_RESOURCE_VRAM=fast", "AMD_VISIBLE_DEVICES=1") == ([1], [])


@pytest.mark.parametrize("user", [[], ["AMD_VISIBLE_DEVICES=all"]])
def test_an_amount_of_a_resource_kind_of_gpus_is_refused(user):
    assert refused("DOCKER_RESOURCE_GPU=2", *user) == (
        "DOCKER_RESOURCE_GPU=2 is an amount and names no GPU"
        " (give every GPU its name in node-generic-resources of the docker daemon: GPU=0x<unique id>)"
    )


def test_a_form_about_which_nobody_decided_is_not_swarms(monkeypatch):
    # As it is for whoever adds a form and forgets Swarm.
    monkeypatch.setattr(swarm_choice, "form_of", lambda _: "")

    assert granted("DOCKER_RESOURCE_AMD_GPU=0000:63:00.0", "AMD_VISIBLE_DEVICES=0") == (
        [0],
        ["DOCKER_RESOURCE_AMD_GPU=0000:63:00.0 does not name GPUs as Swarm does, and is ignored"],
    )


def test_an_id_that_this_node_does_not_have_is_refused_for_a_resource_kind_of_gpus():
    assert refused("DOCKER_RESOURCE_AMD_GPU=0x1234", "AMD_VISIBLE_DEVICES=0") == (
        "DOCKER_RESOURCE_AMD_GPU=0x1234: no GPU has the unique id 0x1234, this host has 0xEA35F57CC80DEB35,"
        " 0x89CAA15875FF5A43, 0x6E32F10EFC982B4C, 0x12FE4F7FDAF06B9 ('amd-ctk gpu list' shows them)"
    )


@pytest.mark.parametrize("user", [[], ["AMD_VISIBLE_DEVICES=all"]])
def test_words_that_are_no_ids_are_refused_for_a_resource_kind_of_gpus(user):
    assert refused("DOCKER_RESOURCE_AMD_GPU=first", *user) == (
        "DOCKER_RESOURCE_AMD_GPU=first: 'first' is not a GPU number, range, unique id or PCI address (write GPUs 0-3)"
    )


def test_two_kinds_that_name_one_gpu_promise_more_than_there_is():
    assert refused("DOCKER_RESOURCE_AMD_GPU=0x6E32F10EFC982B4C", "DOCKER_RESOURCE_GPU=0x6E32F10EFC982B4C") == (
        "DOCKER_RESOURCE_AMD_GPU and DOCKER_RESOURCE_GPU both name GPU 2; a GPU can be assigned only once"
        " (reserve resources of one kind in a service, or name every GPU in one kind only)"
    )


def test_an_amount_of_a_declared_kind_is_memory_of_a_gpu_yet_to_be_chosen():
    environment = ["DOCKER_RESOURCE_VRAM=4000", "DOCKER_RESOURCE_SLOT=1", "AMD_VISIBLE_DEVICES=all"]

    assert decide(environment, SHARING) == Grant(
        gpus=(),
        vram=VramRequest(kind="VRAM", mib=4000),
        kinds=("VRAM",),
        notes=("AMD_VISIBLE_DEVICES=all is ignored because DOCKER_RESOURCE_VRAM reserves memory",),
    )


@pytest.mark.parametrize("value", ["", "0", "-1", "4e3", "4000,4000", "0x10", "9" * 20, "\u0664"])
def test_memory_that_is_no_number_of_mib_is_refused(value):
    assert "is not a number of MiB" in refused(f"DOCKER_RESOURCE_VRAM={value}", settings=SHARING)


def test_memory_and_whole_gpus_do_not_go_together():
    resources = ("DOCKER_RESOURCE_VRAM=4000", "DOCKER_RESOURCE_AMD_GPU=0x6E32F10EFC982B4C")

    assert refused(*resources, settings=SHARING) == (
        "DOCKER_RESOURCE_VRAM=4000 is memory of a shared GPU and DOCKER_RESOURCE_AMD_GPU names whole ones"
        " (reserve one or the other in a service)"
    )


def test_memory_of_two_kinds_is_refused():
    assert refused("DOCKER_RESOURCE_VRAM=4000", "DOCKER_RESOURCE_VRAM_B=1", settings=SHARING) == (
        "DOCKER_RESOURCE_VRAM and DOCKER_RESOURCE_VRAM_B each reserve memory of a GPU"
        " (reserve one of them in a service)"
    )


def test_all_on_a_host_without_gpus_is_refused():
    assert refused("AMD_VISIBLE_DEVICES=all", gpus=[]) == (
        "AMD_VISIBLE_DEVICES=all: this host has no AMD GPU that can compute ('amd-ctk gpu list' shows them)"
    )


def test_a_gpu_that_kfd_does_not_list_is_refused_for_that_reason():
    radeon = UnnumberedGpu(
        pci_address=PciAddress(domain=0, bus=0x0A, device=0, function=0),
        device_id=0x67DF,
        render_minor=140,
        card_minor=9,
    )
    request = GpuRequest(visible="0000:0a:00.0", resources={})

    with pytest.raises(RequestError) as refusal:
        decide_grant(request, GPUS, Settings(), unnumbered=lambda: [radeon])

    assert str(refusal.value) == (
        "AMD_VISIBLE_DEVICES=0000:0a:00.0: the GPU at 0000:0a:00.0 has no number because the kernel's compute driver"
        " (KFD) does not list it ('amd-ctk gpu list' shows the GPUs that containers can have)"
    )


def test_a_request_of_memory_is_not_repeated_in_full():
    assert len(refused("AMD_VISIBLE_DEVICES=" + "x" * 100_000)) < 300
    assert len(refused("AMD_VISIBLE_DEVICES=" + "x" * 1_000_000)) < 300


def test_a_thousand_resources_make_no_long_message():
    foreign = [f"DOCKER_RESOURCE_{number}_{'X' * 5000}=0000:26:00.0" for number in range(1000)]

    gpus, notes = granted("AMD_VISIBLE_DEVICES=0", *foreign)

    assert gpus == [0]
    assert len(notes) == 8
    assert max(map(len, notes)) < 200


WORDS = st.sampled_from(
    ["all", "0", "0-3", "none", "", "first", "0xEA35F57CC80DEB35", "0x1", "0000:26:00.0", "GPU-ea35f57cc80deb35:p0"]
)
VALUES = st.lists(WORDS, max_size=3).map(",".join)


@given(st.dictionaries(st.sampled_from(["AMD_GPU", "GPU", "ANYTHING", "VRAM"]), VALUES), VALUES | st.none())
def test_a_container_gets_what_the_user_or_this_nodes_swarm_named_and_nothing_else(resources, visible):
    user = [] if visible is None else [f"AMD_VISIBLE_DEVICES={visible}"]
    try:
        gpus, _ = granted(*user, *(f"DOCKER_RESOURCE_{kind}={value}" for kind, value in resources.items()))
    except RequestError as refusal:
        assert len(str(refusal)) < 500
        return

    by_swarm = gpus == [0] and "ea35f57cc80deb35" in f"{resources.get('AMD_GPU')}{resources.get('GPU')}".lower()
    assert gpus == [] or by_swarm or gpus == (granted(*user)[0] if user else [])


@pytest.fixture
def host(tmp_path):
    return lambda profile: build_host(tmp_path / "host", profile, bare=True)


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
