"""The names of CDI devices: which ones GPUs get, and which the specification allows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amd_device_spec.cdi import kind_problem, name_problem, names_of
from amdgpu_discovery.choices.selection import select_gpus
from amdgpu_discovery.gpu import DeviceNumber, Gpu, PciAddress

WHOLE = Gpu(
    number=0,
    pci_address=PciAddress(domain=0, bus=3, device=0, function=0),
    render_minor=128,
    card_minor=0,
    kfd_node=1,
    kfd_unique_id=0x8DA82C12EF81B5D,
    pci_unique_id=0x8DA82C12EF81B5D,
    partition_rank=0,
    partition_total=1,
    render_node=DeviceNumber(path="/dev/dri/renderD128", major=226, minor=128),
    card_node=None,
    gpu_id=4711,
    gfx_target="gfx950",
    device_id=0x75A3,
    vram_bytes=None,
    numa_node=None,
    compute_partition="",
    memory_partition="",
    cu_count=256,
    is_apu=False,
    xgmi_hive=None,
    host_total=2,
)
SECOND = WHOLE.replace(
    number=1,
    pci_address=PciAddress(domain=0x10000, bus=0xC1, device=0, function=0),
    render_minor=129,
    kfd_unique_id=0,
    pci_unique_id=0,
)
# As `amd-smi list` prints the first.
SMI_UUID = "08ff75a3-0000-1000-80da-82c12ef81b5d"
HALVES = [
    WHOLE.replace(partition_total=2),
    WHOLE.replace(number=1, render_minor=129, kfd_unique_id=0x11, partition_rank=1, partition_total=2),
]


def numbers(named):
    return {name: [gpu.number for gpu in gpus] for name, gpus in named.items()}


def test_numbers_come_first_then_all_then_ids_then_addresses():
    named = numbers(names_of([WHOLE, SECOND], "all-of-them"))

    assert list(named.items()) == [
        ("0", [0]),
        ("1", [1]),
        ("all", [0, 1]),
        ("0x8DA82C12EF81B5D", [0]),
        ("0x8da82c12ef81b5d", [0]),
        ("08ff75a3-0000-1000-80da-82c12ef81b5d", [0]),
        ("080075a3-0000-1000-80da-82c12ef81b5d", [0]),
        ("0000:03:00.0", [0]),
        ("10000:c1:00.0", [1]),
    ]


@pytest.mark.parametrize(
    ("strategy", "names"),
    [
        ("index", ["0", "all"]),
        (
            "uuid",
            ["0", "all", "0x8DA82C12EF81B5D", "0x8da82c12ef81b5d", SMI_UUID, "080075a3-0000-1000-80da-82c12ef81b5d"],
        ),
        ("pci", ["0", "all", "0000:03:00.0"]),
    ],
)
def test_a_strategy_adds_its_names_to_the_numbers(strategy, names):
    assert list(names_of([WHOLE], strategy)) == names


def test_all_can_be_left_out():
    assert list(names_of([WHOLE], "index", with_all=False)) == ["0"]


def test_a_name_that_partitions_share_means_all_of_them_and_a_rank_means_one():
    named = numbers(names_of(HALVES, "all-of-them", with_all=False))

    assert named == {
        "0": [0],
        "1": [1],
        # The id of the whole GPU, which its first partition has as its own too.
        "0x8DA82C12EF81B5D": [0, 1],
        "0x8da82c12ef81b5d": [0, 1],
        "0x8DA82C12EF81B5D:p0": [0],
        "0x8DA82C12EF81B5D:p1": [1],
        "0x8da82c12ef81b5d:p0": [0],
        "0x8da82c12ef81b5d:p1": [1],
        "08ff75a3-0000-1000-80da-82c12ef81b5d": [0, 1],
        "080075a3-0000-1000-80da-82c12ef81b5d": [0],
        "080175a3-0000-1000-80da-82c12ef81b5d": [1],
        "08ff75a3-0000-1000-80da-82c12ef81b5d:p0": [0],
        "08ff75a3-0000-1000-80da-82c12ef81b5d:p1": [1],
        # An id of digits looks the same in both cases.
        "0x11": [1],
        "0000:03:00.0": [0, 1],
        "0000:03:00.0:p0": [0],
        "0000:03:00.0:p1": [1],
    }


@pytest.mark.parametrize("gpus", [[WHOLE, SECOND], HALVES])
def test_every_name_means_to_engines_what_it_means_in_a_request(gpus):
    for name, behind in names_of(gpus, "all-of-them").items():
        assert select_gpus(gpus, name) == behind


@pytest.mark.parametrize("kind", ["amd.com/gpu", "example.com/gpu_2", "ab/cd", "amd.com/gpu.v2", "a_b-c.com/AB"])
def test_kinds_that_engines_take(kind):
    assert kind_problem(kind) == ""


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("amd.com", "is not of the form vendor/class"),
        ("", "is not of the form vendor/class"),
        ("amd.com/", "has a class that has fewer than two characters"),
        # Legal, and crashes dockerd 28.
        ("amd.com/v", "has a class that has fewer than two characters"),
        ("a/gpu", "has a vendor that has fewer than two characters"),
        ("-amd/gpu", "has a vendor that does not begin with a letter"),
        ("amd./gpu", "has a vendor that does not end with a letter or digit"),
        ("amd.com/gpu/x", "has a class that contains '/'"),
        ("amd.cöm/gpu", "has a vendor that contains '\\xf6'"),
    ],
)
def test_kinds_that_engines_refuse(kind, problem):
    assert kind_problem(kind) == problem


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "is empty"),
        ("-0", "does not begin and end with a letter or digit"),
        ("0:", "does not begin and end with a letter or digit"),
        ("0 1", "contains ' '"),
        ("a=b/c", "contains '/', '='"),
    ],
)
def test_names_that_engines_refuse(name, problem):
    assert name_problem(name) == problem


@given(st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9_.:-]{0,9}[A-Za-z0-9])?", fullmatch=True))
def test_any_name_of_the_specifications_form_is_taken(name):
    assert name_problem(name) == ""
