"""The GPUs of every kind of host, and every trap that the kernel sets for programs that list them."""

from __future__ import annotations

import os
import shutil

import pytest

from amdgpu_discovery.discover import find_gpus, find_unnumbered_gpus, format_gfx_target
from amdgpu_discovery.errors import DriverUnavailable
from amdgpu_discovery.gpu import DeviceNumber, Gpu, PciAddress
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_simulator import load_profile

NODES = "/sys/class/kfd/kfd/topology/nodes"


def addresses(gpus):
    return [str(gpu.pci_address) for gpu in gpus]


def change_properties(host, node, **changes):
    """Rewrite lines of a node's properties; None takes a line out."""
    path = host.path(f"{NODES}/{node}/properties")
    with open(path, encoding="ascii") as file:
        properties = dict(line.split() for line in file)
    properties.update(changes)
    with open(path, "w", encoding="ascii") as file:
        file.writelines(f"{key} {value}\n" for key, value in properties.items() if value is not None)


def test_a_gpu_has_everything_the_driver_says(simulated):
    assert find_gpus(simulated("mi210-4"))[0] == Gpu(
        number=0,
        pci_address=PciAddress(domain=0, bus=3, device=0, function=0),
        render_minor=130,
        card_minor=3,
        kfd_node=4,
        kfd_unique_id=0xEA35F57CC80DEB35,
        pci_unique_id=0xEA35F57CC80DEB35,
        partition_rank=0,
        partition_total=1,
        host_total=4,
        render_node=DeviceNumber(path="/dev/dri/renderD130", major=226, minor=130),
        card_node=DeviceNumber(path="/dev/dri/card3", major=226, minor=3),
        gpu_id=12261,
        gfx_target="gfx90a",
        device_id=0x740F,
        vram_bytes=68702699520,
        numa_node=0,
        compute_partition="",
        memory_partition="",
        cu_count=104,
        is_apu=False,
        xgmi_hive=12609496539644722295,
    )


def test_numbers_follow_pci_addresses_although_the_driver_probed_otherwise(simulated):
    gpus = find_gpus(simulated("mi210-8"))

    assert [(gpu.number, str(gpu.pci_address), gpu.kfd_node, gpu.render_minor) for gpu in gpus] == [
        (0, "0000:03:00.0", 4, 130),
        (1, "0000:26:00.0", 5, 131),
        (2, "0000:43:00.0", 3, 129),
        (3, "0000:63:00.0", 2, 128),
        (4, "0000:83:00.0", 8, 134),
        (5, "0000:a3:00.0", 9, 135),
        (6, "0000:c3:00.0", 7, 133),
        (7, "0000:e3:00.0", 6, 132),
    ]
    hives = [gpu.xgmi_hive for gpu in gpus]
    assert len(set(hives[:4])) == len(set(hives[4:])) == 1
    assert hives[0] != hives[4]


def test_63_partitions_are_63_gpus_because_the_last_got_no_minor(simulated):
    gpus = find_gpus(simulated("mi300x-8-cpx"))

    assert [gpu.number for gpu in gpus] == list(range(63))
    assert [gpu.partition_rank for gpu in gpus] == [0, 1, 2, 3, 4, 5, 6, 7] * 7 + [0, 1, 2, 3, 4, 5, 6]
    assert [gpu.partition_total for gpu in gpus] == [8] * 56 + [7] * 7
    assert addresses(gpus[::8]) == [
        "0000:05:00.0",
        "0000:27:00.0",
        "0000:47:00.0",
        "0000:65:00.0",
        "0000:85:00.0",
        "0000:a7:00.0",
        "0000:c7:00.0",
        "0000:e5:00.0",
    ]
    assert {(gpu.compute_partition, gpu.memory_partition, gpu.cu_count) for gpu in gpus} == {("CPX", "NPS4", 38)}


def test_node_10_comes_after_node_2(simulated):
    gpus = find_gpus(simulated("mi300x-8-cpx"))

    assert [gpu.kfd_node for gpu in gpus] == list(range(2, 65))


def test_two_domains_and_holes_between_render_minors(simulated):
    gpus = find_gpus(simulated("mi308x-8-cpx"))

    assert [(str(gpu.pci_address), gpu.render_minor) for gpu in gpus[12:20]] == [
        ("0000:c8:00.0", 152),
        ("0000:c8:00.0", 153),
        ("0000:c8:00.0", 154),
        ("0000:c8:00.0", 155),
        ("0001:0b:00.0", 160),
        ("0001:0b:00.0", 161),
        ("0001:0b:00.0", 162),
        ("0001:0b:00.0", 163),
    ]
    assert [gpu.vram_bytes for gpu in gpus[:4]] == [51539607552, 51539607552, 51539607552, 51522830336]


def test_unused_partition_devices_are_not_gpus(simulated):
    host = simulated("mi355x-8")

    gpus = find_gpus(host)

    assert len(gpus) == 8
    assert addresses(gpus) == [f"0000:{bus}:00.0" for bus in ("05", "15", "65", "75", "85", "95", "e5", "f5")]
    assert len([name for name in host.names("/sys/devices/platform") if name.startswith("amdgpu_xcp")]) == 56
    assert all(gpu.kfd_unique_id != gpu.pci_unique_id for gpu in gpus)


def test_an_apu_knows_itself_and_has_no_id(simulated):
    (gpu,) = find_gpus(simulated("strix-halo"))

    assert (gpu.gfx_target, gpu.is_apu, gpu.unique_id, gpu.cu_count) == ("gfx1151", True, 0, 40)


@pytest.mark.parametrize(
    "changes",
    [
        {"device_id": 0x15DD, "gfx_target_version": 90002},
        # Linux before targets were told, with and without the firmware's table of processors.
        {"device_id": 0x15DD, "gfx_target_version": None},
        {"device_id": 0x15D8, "gfx_target_version": None},
        {"device_id": 0x1309, "gfx_target_version": None, "cpu_cores_count": 4},
    ],
)
def test_raven_ridge_and_older_are_apus(simulated, changes):
    host = simulated("one-gpu")
    change_properties(host, 1, **changes)

    assert [gpu.is_apu for gpu in find_gpus(host)] == [True]


def test_mi300a_is_an_apu_and_mi300x_is_not(simulated):
    assert [gpu.is_apu for gpu in find_gpus(simulated("mi300a-4"))] == [True] * 4
    assert [gpu.is_apu for gpu in find_gpus(simulated("mi300x-8"))] == [False] * 8


def test_a_card_and_the_processors_own_gpu_stand_side_by_side(simulated):
    gpus = find_gpus(simulated("rx7900xtx-raphael"))

    assert [(gpu.gfx_target, gpu.is_apu) for gpu in gpus] == [("gfx1100", False), ("gfx1036", True)]


def test_the_dot_in_older_partition_names_is_understood(simulated):
    host = simulated("mi300x-8-cpx")
    assert "amdgpu_xcp_10" in host.names("/sys/devices/platform")
    expected = locate_gpus(host)

    host = simulated(load_profile("mi300x-8-cpx").with_driver(xcp_separator="."))

    assert "amdgpu_xcp.10" in host.names("/sys/devices/platform")
    assert locate_gpus(host) == expected


def test_a_domain_above_ffff_comes_last_and_not_by_its_first_digit(simulated):
    profile = load_profile("mi210-4").with_gpu(0, pci_address="10000:01:00.0").with_gpu(1, pci_address="1001:01:00.0")

    assert addresses(locate_gpus(simulated(profile))) == [
        "0000:03:00.0",
        "0000:26:00.0",
        "1001:01:00.0",
        "10000:01:00.0",
    ]


def test_a_kernel_without_domains_has_domain_0(simulated):
    host = simulated(load_profile("mi210-4").with_driver(absent_properties=("domain",)))

    assert addresses(locate_gpus(host)) == ["0000:03:00.0", "0000:26:00.0", "0000:43:00.0", "0000:63:00.0"]


def test_partitions_of_a_kernel_without_domains_still_find_their_parent(simulated):
    host = simulated(load_profile("mi300x-8-cpx").with_driver(absent_properties=("domain",)))

    assert locate_gpus(host) == locate_gpus(simulated("mi300x-8-cpx"))


def test_card_numbers_are_not_render_numbers(simulated):
    assert [(gpu.render_minor, gpu.card_minor) for gpu in locate_gpus(simulated("mi300x-8"))][:2] == [
        (128, 1),
        (136, 9),
    ]


def test_a_partition_number_in_the_high_bits_of_the_location_is_ignored(simulated):
    host = simulated("mi300x-8-cpx")
    before = locate_gpus(host)
    for gpu in before:
        location = gpu.pci_address.bus << 8 | gpu.partition_rank << 28
        change_properties(host, gpu.kfd_node, location_id=location)

    assert locate_gpus(host) == before


def test_two_virtual_functions_of_one_device_keep_their_partitions_apart(simulated):
    profile = load_profile("mi300x-8-cpx")
    functions = [gpu.replace(pci_address=f"0000:02:02.{n}") for n, gpu in enumerate(profile.gpus[:2], 1)]
    gpus = locate_gpus(simulated(profile.replace(gpus=tuple(functions))))

    assert addresses(gpus) == ["0000:02:02.1"] * 8 + ["0000:02:02.2"] * 8
    assert [gpu.partition_rank for gpu in gpus] == [0, 1, 2, 3, 4, 5, 6, 7] * 2


def test_minors_above_191_are_shared_by_cards_and_render_nodes_and_ordered_as_numbers(simulated):
    """Since Linux 6.12 both kinds take what is free there, so that neither is told by its number."""
    minors = ((192, 193), (194, 1000), (1001, 195), *((None, minor) for minor in range(200, 205)))
    profile = load_profile("mi300x-8-cpx")
    host = simulated(profile.replace(gpus=(profile.gpus[0].replace(minors=minors),)))

    assert [(gpu.number, gpu.render_minor, gpu.card_minor) for gpu in locate_gpus(host)] == [
        (0, 193, 192),
        (1, 195, 1001),
        (2, 200, None),
        (3, 201, None),
        (4, 202, None),
        (5, 203, None),
        (6, 204, None),
        (7, 1000, 194),
    ]


def test_partitions_of_a_board_without_minors_are_known_by_its_slot(simulated):
    profile = load_profile("mi300x-8-cpx")
    host = simulated(profile.replace(gpus=profile.gpus[:1]))
    (whole, *_) = locate_gpus(host)
    for node in (whole.card_path, whole.render_path):
        os.unlink(host.path(f"/sys/class/drm/{os.path.basename(node)}"))
    shutil.rmtree(host.path("/sys/bus/pci/devices/0000:05:00.0/drm"))

    gpus = find_gpus(host)

    assert [(str(gpu.pci_address), gpu.partition_rank) for gpu in gpus] == [("0000:05:00.0", rank) for rank in range(7)]
    assert {(gpu.pci_unique_id, gpu.numa_node, gpu.compute_partition) for gpu in gpus} == {(0, None, "")}


@pytest.mark.parametrize("profile", ["mi210-4", "mi300x-8-cpx"])
def test_a_missing_link_to_a_render_node_moves_no_number(simulated, profile):
    host = simulated(profile)
    before = locate_gpus(host)
    for gpu in before[1:3]:
        os.unlink(host.path(f"/sys/class/drm/renderD{gpu.render_minor}"))

    assert locate_gpus(host) == before
    assert find_unnumbered_gpus(host) == []


def test_a_gpu_without_a_card_is_a_gpu(simulated):
    host = simulated(load_profile("one-gpu").with_gpu(0, minors=((None, 128),)))

    assert [(gpu.card_path, gpu.render_path) for gpu in locate_gpus(host)] == [(None, "/dev/dri/renderD128")]


@pytest.mark.parametrize("content", [None, 0])
def test_an_absent_or_empty_pci_id_is_0(simulated, content):
    host = simulated(load_profile("one-gpu").with_gpu(0, pci_unique_id=content, kfd_unique_ids=(0,)))

    (gpu,) = locate_gpus(host)

    assert (gpu.kfd_unique_id, gpu.pci_unique_id, gpu.unique_id) == (0, 0, 0)


def test_kfd_without_an_id_shows_that_of_the_board(simulated):
    host = simulated(load_profile("one-gpu").with_gpu(0, pci_unique_id=0xABC, kfd_unique_ids=(0,)))

    assert [gpu.unique_id for gpu in locate_gpus(host)] == [0xABC]


def test_ids_use_all_64_bits(simulated):
    host = simulated(load_profile("one-gpu").with_gpu(0, pci_unique_id=2**64 - 1, kfd_unique_ids=(2**64 - 1,)))

    assert [(gpu.kfd_unique_id, gpu.pci_unique_id) for gpu in locate_gpus(host)] == [(2**64 - 1, 2**64 - 1)]


def test_partitions_may_have_ids_of_their_own(simulated):
    ids = tuple(range(0xA0, 0xA8))
    profile = load_profile("mi300x-8-cpx")
    one = profile.replace(gpus=(profile.gpus[0].replace(kfd_unique_ids=ids, pci_unique_id=0xFF),))

    gpus = locate_gpus(simulated(one))

    assert [gpu.kfd_unique_id for gpu in gpus] == list(ids)
    assert {gpu.pci_unique_id for gpu in gpus} == {0xFF}


def test_a_node_whose_render_minor_is_dead_is_left_out(simulated):
    host = simulated("mi210-4")
    change_properties(host, 4, drm_render_minor=190)

    assert addresses(locate_gpus(host)) == ["0000:26:00.0", "0000:43:00.0", "0000:63:00.0"]


def test_a_gpu_node_without_a_render_minor_cannot_be_used(simulated):
    host = simulated("mi210-4")
    change_properties(host, 4, drm_render_minor=0)

    assert len(locate_gpus(host)) == 3


def test_a_gpu_without_kfd_is_listed_apart_and_has_no_number(simulated):
    host = simulated(load_profile("mi210-4").with_gpu(2, partitions=0))

    assert len(find_gpus(host)) == 3
    (apart,) = find_unnumbered_gpus(host)
    assert (str(apart.pci_address), apart.device_id, apart.render_minor, apart.card_minor) == (
        "0000:03:00.0",
        0x740F,
        130,
        3,
    )
    assert apart.reason == "the kernel's compute driver (KFD) does not list it"


def test_a_gpu_whose_render_node_is_dead_is_not_said_to_be_unknown_to_kfd(simulated):
    host = simulated("mi210-4")
    change_properties(host, 4, drm_render_minor=190)

    (apart,) = find_unnumbered_gpus(host)

    assert str(apart.pci_address) == "0000:03:00.0"
    assert apart.reason == "the render node that the kernel's compute driver (KFD) names for it does not exist"


def test_a_partitioned_gpu_is_not_listed_apart(simulated):
    assert find_unnumbered_gpus(simulated("mi300x-8-cpx")) == []


def test_no_driver_is_reported_in_one_sentence(simulated):
    with pytest.raises(DriverUnavailable) as refusal:
        find_gpus(simulated("no-driver"))

    assert str(refusal.value) == (
        "amdgpu driver unavailable: /sys/module/amdgpu/drivers/ does not exist"
        " (load it with 'sudo modprobe amdgpu', or install it)"
    )


def test_a_loaded_driver_without_gpus_is_no_error(simulated):
    assert find_gpus(simulated(load_profile("one-gpu").replace(gpus=()))) == []


def test_memory_that_kfd_does_not_list_is_asked_of_the_board(simulated):
    host = simulated("one-gpu")
    shutil.rmtree(host.path(f"{NODES}/1/mem_banks"))

    assert [gpu.vram_bytes for gpu in find_gpus(host)] == [34208743424]


def test_memory_of_a_partition_is_not_that_of_the_board(simulated):
    host = simulated("mi300x-8-cpx")
    shutil.rmtree(host.path(f"{NODES}/2/mem_banks"))

    assert find_gpus(host)[0].vram_bytes is None


def test_an_unknown_numa_node_is_none(simulated):
    assert [gpu.numa_node for gpu in find_gpus(simulated(load_profile("one-gpu").with_gpu(0, numa_node=-1)))] == [None]


def test_properties_of_kernels_to_come_do_no_harm(simulated):
    host = simulated("one-gpu")
    before = find_gpus(host)
    change_properties(host, 1, a_new_property=7, unreadable_property="x")

    assert find_gpus(host) == before


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (90010, "gfx90a"),
        (90012, "gfx90c"),
        (90402, "gfx942"),
        (90500, "gfx950"),
        (100306, "gfx1036"),
        (110003, "gfx1103"),
        (110501, "gfx1151"),
        (120001, "gfx1201"),
        (0, ""),
    ],
)
def test_a_gfx_target_is_named_as_compilers_do(version, name):
    assert format_gfx_target(version) == name


@pytest.mark.parametrize("text", ["9" * 5000, "f" * 5000, "zzz", "²", ""])
@pytest.mark.parametrize("attribute", ["numa_node", "mem_info_vram_total", "unique_id"])
def test_an_attribute_that_is_no_number_hides_no_gpu(simulated, attribute, text):
    host = simulated("mi210-4")
    _write(host.path(f"/sys/bus/pci/devices/0000:03:00.0/{attribute}"), text)

    assert addresses(find_gpus(host)) == ["0000:03:00.0", "0000:26:00.0", "0000:43:00.0", "0000:63:00.0"]


def test_a_gpu_id_of_5000_digits_is_none(simulated):
    host = simulated("mi210-4")
    _write(host.path(f"{NODES}/4/gpu_id"), "9" * 5000)

    assert find_gpus(host)[0].gpu_id == 0


def test_a_numa_node_of_5000_digits_is_unknown(simulated):
    host = simulated("mi210-4")
    _write(host.path("/sys/bus/pci/devices/0000:03:00.0/numa_node"), "9" * 5000)

    assert find_gpus(host)[0].numa_node is None


def test_a_gpu_without_a_number_may_have_no_device_id(simulated):
    host = simulated("mi210-4")
    shutil.rmtree(host.path(f"{NODES}/4"))
    _write(host.path("/sys/bus/pci/devices/0000:03:00.0/device"), "zzz")

    assert [(str(gpu.pci_address), gpu.device_id) for gpu in find_unnumbered_gpus(host)] == [("0000:03:00.0", 0)]


def _write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{text}\n")
