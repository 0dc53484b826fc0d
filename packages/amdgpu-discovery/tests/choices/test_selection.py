"""The request grammar: every spelling, every refusal, and properties that hold for all requests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amdgpu_discovery.choices.selection import (
    asks_for_nothing,
    form_of,
    format_smi_uuid,
    is_identity,
    names_numbers,
    parse_unique_id,
    resolve,
    select_gpus,
)
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.gpu import GpuLocation, PciAddress, UnnumberedGpu


def gpu(number, *, bus, rank=0, total=1, kfd_id=0, pci_id=0, domain=0, host_total=4):
    return GpuLocation(
        number=number,
        pci_address=PciAddress(domain=domain, bus=bus, device=0, function=0),
        render_minor=128 + number,
        card_minor=None,
        kfd_node=1 + number,
        kfd_unique_id=kfd_id,
        pci_unique_id=pci_id,
        partition_rank=rank,
        partition_total=total,
        host_total=host_total,
    )


# Four MI210; their ids are those of the product's guide.
MI210 = [
    gpu(0, bus=0x03, kfd_id=0xEA35F57CC80DEB35, pci_id=0xEA35F57CC80DEB35),
    gpu(1, bus=0x26, kfd_id=0x89CAA15875FF5A43, pci_id=0x89CAA15875FF5A43),
    gpu(2, bus=0x43, kfd_id=0x6E32F10EFC982B4C, pci_id=0x6E32F10EFC982B4C),
    gpu(3, bus=0x63, kfd_id=0x12FE4F7FDAF06B9, pci_id=0x12FE4F7FDAF06B9),
]
# Two boards of two partitions; on the second KFD knows each partition by an id of its own.
PARTITIONED = [
    gpu(0, bus=0x05, rank=0, total=2, kfd_id=0xA1, pci_id=0xA1),
    gpu(1, bus=0x05, rank=1, total=2, kfd_id=0xA1, pci_id=0xA1),
    gpu(2, bus=0x27, rank=0, total=2, kfd_id=0xB1, pci_id=0xBB),
    gpu(3, bus=0x27, rank=1, total=2, kfd_id=0xB2, pci_id=0xBB),
]
APUS = [gpu(0, bus=0x0C, host_total=2), gpu(1, bus=0x0D, host_total=2)]


def numbers(gpus, request):
    return [chosen.number for chosen in select_gpus(gpus, request)]


@pytest.mark.parametrize(
    ("request_text", "chosen"),
    [
        ("0", [0]),
        ("0,1,2", [0, 1, 2]),
        ("0-2", [0, 1, 2]),
        ("0-1,3", [0, 1, 3]),
        ("3,0", [0, 3]),
        ("0,0,0-1", [0, 1]),
        (" 0 , 1 ", [0, 1]),
        ("0 - 2", [0, 1, 2]),
        ("2-2", [2]),
        ("01", [1]),
        ("+1", [1]),
        ("all", [0, 1, 2, 3]),
        ("ALL", [0, 1, 2, 3]),
        ("aLL", [0, 1, 2, 3]),
        ("all,0", [0, 1, 2, 3]),
        ("0xEA35F57CC80DEB35", [0]),
        ("0xea35f57cc80deb35", [0]),
        ("ea35f57cc80deb35", [0]),
        ("GPU-ea35f57cc80deb35", [0]),
        ("0x012FE4F7FDAF06B9", [3]),
        ("0x12FE4F7FDAF06B9", [3]),
        ("0000:26:00.0", [1]),
        ("26:00.0", [1]),
        ("0000:26:00.0:p0", [1]),
        ("amd.com/gpu=2", [2]),
        ("amd.com/gpu=all", [0, 1, 2, 3]),
        ("amd.com/gpu=0,amd.com/gpu=0x6E32F10EFC982B4C", [0, 2]),
        ("0,0x89CAA15875FF5A43", [0, 1]),
        ("eaff740f-0000-1000-8035-f57cc80deb35", [0]),
        ("EAFF740F-0000-1000-8035-F57CC80DEB35", [0]),
        ("01ff740f-0000-1000-802f-e4f7fdaf06b9:p0", [3]),
        ("amd.com/gpu=eaff740f-0000-1000-8035-f57cc80deb35,1", [0, 1]),
        ("0,", [0]),
        ("0-1 , ", [0, 1]),
        ("", []),
        ("  ", []),
        ("none", []),
        ("amd.com/gpu=none", []),
        ("void", []),
        ("None", []),
    ],
)
def test_a_request_names_gpus(request_text, chosen):
    assert numbers(MI210, request_text) == chosen


@pytest.mark.parametrize(
    ("request_text", "chosen"),
    [
        ("0xA1", [0, 1]),
        ("0000:05:00.0", [0, 1]),
        ("0xA1:p1", [1]),
        ("0000:27:00.0:p0", [2]),
        ("0xB2", [3]),
        ("0xBB", [2, 3]),
        ("0xBB:p1", [3]),
        ("0xB2:p1", [3]),
        ("00ff74a1-0000-1000-8000-0000000000bb", [2, 3]),
        ("00ff74a1-0000-1000-8000-0000000000bb:p1", [3]),
    ],
)
def test_an_id_of_several_partitions_means_all_of_them_unless_one_is_named(request_text, chosen):
    assert numbers(PARTITIONED, request_text) == chosen


@pytest.mark.parametrize(
    ("request_text", "sentence"),
    [
        ("7", "GPU 7 does not exist, this host has GPUs 0-3 ('amd-ctk gpu list' shows them)"),
        ("0,99", "GPU 99 does not exist, this host has GPUs 0-3 ('amd-ctk gpu list' shows them)"),
        ("2-5", "GPUs 4-5 do not exist, this host has GPUs 0-3 ('amd-ctk gpu list' shows them)"),
        (
            "0-9999999999",
            "GPUs 4-9999999999 do not exist, this host has GPUs 0-3 ('amd-ctk gpu list' shows them)",
        ),
        ("3-1", "'3-1' is not a range of GPUs (write 1-3)"),
        ("-1", "'-1' is not a range of GPUs (write the first and the last number, such as 0-2)"),
        ("1-", "'1-' is not a range of GPUs (write the first and the last number, such as 0-2)"),
        ("1--2", "'1--2' is not a range of GPUs (write the first and the last number, such as 0-2)"),
        ("1-2-3", "'1-2-3' is not a range of GPUs (write the first and the last number, such as 0-2)"),
        (
            "0x1234",
            (
                "no GPU has the unique id 0x1234, this host has 0xEA35F57CC80DEB35, 0x89CAA15875FF5A43,"
                " 0x6E32F10EFC982B4C, 0x12FE4F7FDAF06B9 ('amd-ctk gpu list' shows them)"
            ),
        ),
        (
            "0000:99:00.0",
            (
                "no GPU is at PCI address 0000:99:00.0, this host has 0000:03:00.0, 0000:26:00.0, 0000:43:00.0,"
                " 0000:63:00.0 ('amd-ctk gpu list' shows them)"
            ),
        ),
        ("26:00.0:p1", "26:00.0 has only partition 0, not 1 ('amd-ctk gpu list' shows them)"),
        (
            "1:p0",
            (
                "'1:p0' names no partition"
                " (put :pN behind a unique id or a PCI address; a number names one partition already)"
            ),
        ),
        ("abc", "'abc' is not a GPU number, range, unique id or PCI address (write GPUs 0-3)"),
        ("0x", "'0x' is not a GPU number, range, unique id or PCI address (write GPUs 0-3)"),
        ("0 1", "'0 1' is not a GPU number, range, unique id or PCI address (write GPUs 0-3)"),
        (
            "0,,",
            "an empty item between commas is not a GPU number, range, unique id or PCI address (write GPUs 0-3)",
        ),
        (",", "an empty item between commas is not a GPU number, range, unique id or PCI address (write GPUs 0-3)"),
        (
            "GPU-XX",
            (
                "GPU-XX is how rocminfo prints a GPU without a unique id"
                " (write its number or PCI address; 'amd-ctk gpu list --json' shows them)"
            ),
        ),
        (
            "08ff75a3-0000-1000-80da-82c12ef81b5d",
            (
                "no GPU has the unique id 08ff75a3-0000-1000-80da-82c12ef81b5d, this host has 0xEA35F57CC80DEB35,"
                " 0x89CAA15875FF5A43, 0x6E32F10EFC982B4C, 0x12FE4F7FDAF06B9 ('amd-ctk gpu list' shows them)"
            ),
        ),
        (
            "GPU-5f1c2a3b-9c1d-4000-80da-82c12ef81b5d",
            (
                "'GPU-5f1c2a3b-9c1d-4000-80da-82c12ef81b5d' is not a GPU number, range, unique id or PCI address"
                " (write GPUs 0-3)"
            ),
        ),
        ("0-x", "'0-x' is not a GPU number, range, unique id or PCI address (write GPUs 0-3)"),
        ("amd.com/gpu=none,0", "'none' is not a GPU number, range, unique id or PCI address (write GPUs 0-3)"),
        (
            "amd.com/gpu=",
            "an empty item between commas is not a GPU number, range, unique id or PCI address (write GPUs 0-3)",
        ),
        ("none,0", "'none' is not a GPU number, range, unique id or PCI address (write GPUs 0-3)"),
        ("\u0661", "'\u0661' is not a GPU number, range, unique id or PCI address (write GPUs 0-3)"),
        ("\x1b[2J", "'\\x1b[2J' is not a GPU number, range, unique id or PCI address (write GPUs 0-3)"),
    ],
)
def test_a_request_that_cannot_be_met_is_refused_in_one_sentence(request_text, sentence):
    with pytest.raises(RequestError) as refusal:
        select_gpus(MI210, request_text)

    assert str(refusal.value) == sentence


def test_id_zero_never_matches_although_apus_have_it():
    with pytest.raises(RequestError, match="no GPU has the unique id 0x0, this host has none"):
        select_gpus(APUS, "0x0")


def test_an_id_that_looks_like_a_number_is_written_with_0x():
    gpus = [gpu(0, bus=3, kfd_id=0x64, pci_id=0x64, host_total=1)]

    assert numbers(gpus, "0x64") == [0]
    with pytest.raises(RequestError, match="GPU 64 does not exist, this host has GPU 0"):
        select_gpus(gpus, "64")


def test_all_of_nothing_is_refused():
    with pytest.raises(RequestError) as refusal:
        select_gpus([], "all")

    assert str(refusal.value) == "this host has no AMD GPU that can compute ('amd-ctk gpu list' shows them)"


def test_a_host_with_many_ids_does_not_list_them_all():
    gpus = [gpu(number, bus=number, kfd_id=0x100 + number, host_total=12) for number in range(12)]

    with pytest.raises(RequestError) as refusal:
        select_gpus(gpus, "0x1")

    assert str(refusal.value) == (
        "no GPU has the unique id 0x1, this host has 0x100, 0x101, 0x102, 0x103, 0x104, 0x105, 0x106, 0x107 and 4 more"
        " ('amd-ctk gpu list' shows them)"
    )


def test_a_word_that_means_nothing_is_refused_on_a_host_without_gpus_too():
    with pytest.raises(RequestError) as refusal:
        select_gpus([], "abc")

    assert str(refusal.value) == (
        "'abc' is not a GPU number, range, unique id or PCI address (this host has no AMD GPU that can compute)"
    )


def test_a_long_name_is_not_repeated_in_full():
    with pytest.raises(RequestError) as refusal:
        select_gpus(PARTITIONED, f"0x{'0' * 5000}A1:p9")

    assert str(refusal.value) == (f"0x{'0' * 58} has partitions 0-1, not 9 ('amd-ctk gpu list' shows them)")


def test_a_request_of_more_items_than_any_host_has_gpus_is_refused_before_it_is_read():
    with pytest.raises(RequestError) as refusal:
        resolve(MI210, ",".join(map(hex, range(1, 1026))))

    assert str(refusal.value) == "a request of 1025 items is too long (at most 1024 are read)"


def test_repeated_items_count_once():
    assert numbers(MI210, ",".join(["0", "1"] * 1000)) == [0, 1]
    assert len(resolve(MI210, ",".join(["x"] * 60_000)).unknown) == 1


def test_a_request_that_no_process_could_be_given_is_refused_before_it_is_read():
    with pytest.raises(RequestError) as refusal:
        resolve(MI210, "0," * 1_000_000)

    assert str(refusal.value) == "a request of 2000000 characters is too long (at most 131072 are read)"


def test_resolving_keeps_what_can_be_met_and_lists_the_rest():
    resolution = resolve(MI210, "7,9-8,abc,1,2-5")

    assert [chosen.number for chosen in resolution.gpus] == [1, 2, 3]
    assert [problem.item for problem in resolution.broken_ranges] == ["9-8"]
    assert [item for problem in resolution.unknown for item in problem.items] == ["7", "abc", "4", "5"]


def test_a_wide_range_is_listed_by_its_ends():
    assert [problem.items for problem in resolve(MI210, "0-20000000").unknown] == [["4-20000000"]]


def test_identities_are_distinguished_from_numbers():
    identities = ["0x12", "123456789a", "GPU-12", "03:00.0", "0000:03:00.0:p1", "amd.com/gpu=0x12:p0"]
    others = ["0", "0-2", "all", "slot", "", "p1"]

    assert [item for item in identities + others if is_identity(item)] == identities


def test_names_are_distinguished_by_their_form():
    forms = {item: form_of(item) for item in ["0x12:p1", "eaff740f-0000-1000-8035-f57cc80deb35", "03:00.0:p0", "3", ""]}

    assert forms == {
        "0x12:p1": "uuid",
        "eaff740f-0000-1000-8035-f57cc80deb35": "uuid",
        "03:00.0:p0": "pci",
        "3": "",
        "": "",
    }


@pytest.mark.parametrize(
    ("request_text", "sentence"),
    [
        (
            "0000:27:00.1",
            (
                "PCI address 0000:27:00.1 is how rocm-smi prints partition 1 of the GPU at 0000:27:00.0"
                " (write 0000:27:00.0:p1)"
            ),
        ),
        (
            "0000:27:00.2",
            (
                "no GPU is at PCI address 0000:27:00.2, this host has 0000:05:00.0, 0000:27:00.0"
                " ('amd-ctk gpu list' shows them)"
            ),
        ),
    ],
)
def test_a_partition_that_is_written_as_a_pci_function_is_refused_with_how_to_write_it(request_text, sentence):
    with pytest.raises(RequestError) as refusal:
        select_gpus(PARTITIONED, request_text)

    assert str(refusal.value) == sentence


def test_gpus_without_a_number_are_looked_up_once_and_only_for_unknown_addresses():
    radeon = UnnumberedGpu(
        pci_address=PciAddress(domain=0, bus=0x0A, device=0, function=0),
        device_id=0x67DF,
        render_minor=140,
        card_minor=9,
    )
    calls = []

    def unnumbered():
        calls.append(1)
        return [radeon]

    resolve(MI210, "0,7,x", unnumbered=unnumbered)
    assert calls == []

    resolution = resolve(MI210, "0a:00.0,0b:00.0,0c:00.0", unnumbered=unnumbered)
    assert calls == [1]
    assert [str(problem) for problem in resolution.unknown[:2]] == [
        (
            "the GPU at 0000:0a:00.0 has no number because the kernel's compute driver (KFD) does not list it"
            " ('amd-ctk gpu list' shows the GPUs that containers can have)"
        ),
        (
            "no GPU is at PCI address 0000:0b:00.0, this host has 0000:03:00.0, 0000:26:00.0, 0000:43:00.0,"
            " 0000:63:00.0 ('amd-ctk gpu list' shows them)"
        ),
    ]
    assert resolution.unknown[0].items == ["0a:00.0"]


def test_the_uuid_of_amd_smi_is_the_serial_number_with_the_device_id_in_between():
    assert parse_unique_id("08ff75a3-0000-1000-80da-82c12ef81b5d") == 0x8DA82C12EF81B5D
    assert format_smi_uuid(0x8DA82C12EF81B5D, 0x75A3) == "08ff75a3-0000-1000-80da-82c12ef81b5d"


@pytest.mark.parametrize(
    "text",
    [
        "08ff75a3-0000-1000-80da-82c12ef81b5",
        "0x8ff75a3-0000-1000-80da-82c12ef81b5d",
        "08ff75a3-0000-4000-80da-82c12ef81b5d",
        "08ff75a3-0000-1000-90da-82c12ef81b5d",
        "08ff75a3-0000-1000-80da82c12ef81b5d00",
        "08ff75a3-0000-1000-80da-82c12ef81b5g",
    ],
)
def test_a_text_that_only_looks_like_that_uuid_is_no_unique_id(text):
    assert parse_unique_id(text) is None


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**16 - 1), st.integers(0, 255))
def test_every_uuid_of_amd_smi_is_read_back(unique_id, device_id, partition):
    assert parse_unique_id(format_smi_uuid(unique_id, device_id, partition)) == unique_id


@pytest.mark.parametrize(
    ("uuid", "chosen"),
    [
        # amd-smi 6 and earlier; amd-smi 10.1.
        ("eaff740f-0000-1000-8035-f57cc80deb35", [0]),
        ("ea00740f-0000-1000-8035-f57cc80deb35", [0]),
        ("EA00740F-0000-1000-8035-F57CC80DEB35", [0]),
        ("amd.com/gpu=6e00740f-0000-1000-8032-f10efc982b4c", [2]),
    ],
)
def test_a_whole_gpu_has_the_uuids_of_two_generations_of_amd_smi(uuid, chosen):
    assert numbers(MI210, uuid) == chosen


@pytest.mark.parametrize(
    ("uuid", "chosen"),
    [
        ("00ff74a1-0000-1000-8000-0000000000a1", [0, 1]),
        ("000074a1-0000-1000-8000-0000000000a1", [0]),
        ("000174a1-0000-1000-8000-0000000000a1", [1]),
        ("000174a1-0000-1000-8000-0000000000bb", [3]),
        ("000074a1-0000-1000-8000-0000000000a1,000174a1-0000-1000-8000-0000000000bb", [0, 3]),
    ],
)
def test_the_second_byte_of_such_a_uuid_is_the_number_of_a_partition(uuid, chosen):
    assert numbers(PARTITIONED, uuid) == chosen


def test_a_uuid_of_a_partition_that_is_not_there_is_refused():
    for gpus, uuid in (
        (PARTITIONED, "000274a1-0000-1000-8000-0000000000a1"),
        (MI210, "ea01740f-0000-1000-8035-f57cc80deb35"),
    ):
        with pytest.raises(RequestError):
            numbers(gpus, uuid)


def test_the_serial_number_that_amd_smi_prints_in_decimal_behind_0x_is_explained():
    with pytest.raises(RequestError) as refusal:
        numbers(MI210, f"0x{0x89CAA15875FF5A43}")

    assert refusal.value.hint == "amd-smi 6.1 prints the id of GPU 1 in decimal behind 0x; write 0x89CAA15875FF5A43"


@given(st.integers(0, 2**64 - 1), st.sampled_from(["0x{:x}", "0x{:016X}", "{:016x}", "GPU-{:016x}", "0X{:X}"]))
def test_every_spelling_of_an_id_is_the_same_number(unique_id, spelling):
    assert parse_unique_id(spelling.format(unique_id)) == unique_id


@given(st.lists(st.integers(0, 3), min_size=1))
def test_numbers_come_back_sorted_and_once(wanted):
    assert numbers(MI210, ",".join(map(str, wanted))) == sorted(set(wanted))


@given(st.integers(0, 3), st.integers(0, 3))
def test_a_range_is_what_lies_between_its_ends(first, last):
    if first > last:
        with pytest.raises(RequestError):
            select_gpus(MI210, f"{first}-{last}")
    else:
        assert numbers(MI210, f"{first}-{last}") == list(range(first, last + 1))


@given(st.text(max_size=30) | st.lists(st.sampled_from("0 3 4 all 0-2 2-0 - 0x1 , :p1 03:00.0".split())).map(",".join))
def test_a_request_is_met_as_written_or_refused_with_a_short_sentence(text):
    resolution = resolve(MI210, text)
    try:
        chosen = select_gpus(MI210, text)
    except RequestError as refusal:
        assert resolution.unknown or resolution.broken_ranges
        assert len(str(refusal)) < 500
        assert str(refusal).isprintable()
    else:
        assert chosen == list(resolution.gpus)
        assert not resolution.unknown
        assert asks_for_nothing(text) == (not chosen)


def test_a_request_of_numbers_names_no_identities():
    numbers = ["", "none", "all", "3", "+3", "0-2", "0 - 2", "0,2-3,all", "12345678", "100000000-200000000", "ALL"]
    others = ["123456789", "0x1", "gpu-1", "0000:03:00.0", "03:00.0", "0,0x8da82c12ef81b5d", "x", "amd.com/gpu=1"]

    assert [request for request in numbers + others if names_numbers(request)] == numbers


# --- GPUs that this process may not use


@pytest.mark.parametrize(
    ("request_text", "chosen"), [("all", [2, 3]), ("2", [2]), ("2-3", [2, 3]), ("0000:63:00.0", [3]), ("none", [])]
)
def test_numbers_are_the_hosts_where_some_gpus_are_hidden(request_text, chosen):
    assert numbers(MI210[2:], request_text) == chosen


@pytest.mark.parametrize(
    ("gpus", "request_text", "sentence"),
    [
        (MI210[2:], "0", "GPU 0 is not among the GPUs this process may use (2, 3)"),
        (MI210[:2], "3", "GPU 3 is not among the GPUs this process may use (0, 1)"),
        (MI210[::2], "0-2", "GPU 1 is not among the GPUs this process may use (0, 2)"),
        (MI210[2:], "0-3", "GPUs 0, 1 are not among the GPUs this process may use (2, 3)"),
        (MI210[2:], "4", "GPU 4 does not exist, this host has GPUs 0-3"),
        (MI210[2:], "1-4", "GPU 4 does not exist, this host has GPUs 0-3"),
        (
            MI210[2:],
            "03:00.0",
            "no GPU is at PCI address 0000:03:00.0, this process may use 0000:43:00.0, 0000:63:00.0",
        ),
        (
            MI210[2:],
            "0xEA35F57CC80DEB35",
            "no GPU has the unique id 0xEA35F57CC80DEB35, this process may use 0x6E32F10EFC982B4C, 0x12FE4F7FDAF06B9",
        ),
    ],
)
def test_a_hidden_gpu_is_refused_with_those_that_may_be_used(gpus, request_text, sentence):
    with pytest.raises(RequestError) as refusal:
        select_gpus(gpus, request_text)

    assert refusal.value.message == sentence


def test_a_hidden_gpu_is_an_item_that_can_be_left_out():
    resolution = resolve(MI210[2:], "1-2")

    assert [gpu.number for gpu in resolution.gpus] == [2]
    assert [problem.items for problem in resolution.unknown] == [["1"]]
