"""Profiles as files."""

from __future__ import annotations

import pytest

from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.errors import DriverUnavailable
from amdgpu_discovery.recording.profile import ProfileError
from amdgpu_simulator.profile_files import gpu_model, load_profile, profile_names

GIB = 1 << 30


def sketch(gpus):
    """Return what tells the hosts apart: how many GPUs, and of the first target, units, memory and partition."""
    first = gpus[0]
    mode = f"{first.compute_partition} {first.memory_partition}".strip()
    return len(gpus), first.gfx_target, first.cu_count, round((first.vram_bytes or 0) / GIB), mode


def test_the_profiles_are_the_hosts_they_are_named_after(simulated):
    sketches = {name: sketch(find_gpus(simulated(name))) for name in profile_names() if name != "no-driver"}

    assert sketches == {
        "headless": (1, "gfx1201", 64, 32, ""),
        "mi210-4": (4, "gfx90a", 104, 64, ""),
        "mi210-8": (8, "gfx90a", 104, 64, ""),
        "mi300a-4": (4, "gfx942", 228, 125, "SPX NPS1"),
        "mi300x-8": (8, "gfx942", 304, 192, "SPX NPS1"),
        "mi300x-8-cpx": (63, "gfx942", 38, 24, "CPX NPS4"),
        "mi300x-vf": (2, "gfx942", 304, 192, "SPX NPS1"),
        "mi308x-8-cpx": (32, "gfx942", 20, 48, "CPX NPS4"),
        "mi355x-8": (8, "gfx950", 256, 288, "SPX NPS1"),
        "one-gpu": (1, "gfx1201", 64, 32, ""),
        "rx7900xtx-raphael": (2, "gfx1100", 96, 24, ""),
        "strix-halo": (1, "gfx1151", 40, 62, ""),
    }


def test_no_driver_has_none(simulated):
    with pytest.raises(DriverUnavailable):
        find_gpus(simulated("no-driver"))


def test_mi210_4_is_the_host_of_the_guide(simulated):
    gpus = find_gpus(simulated("mi210-4"))

    assert [(gpu.number, gpu.kfd_node, gpu.gpu_id, f"0x{gpu.unique_id:X}") for gpu in gpus] == [
        (0, 4, 12261, "0xEA35F57CC80DEB35"),
        (1, 5, 13566, "0x89CAA15875FF5A43"),
        (2, 3, 57300, "0x6E32F10EFC982B4C"),
        (3, 2, 1997, "0x12FE4F7FDAF06B9"),
    ]


@pytest.mark.parametrize("name", profile_names())
def test_a_profile_says_what_it_is_and_where_its_values_come_from(name):
    profile = load_profile(name)

    assert profile.name == name
    assert profile.about
    assert profile.origin


def test_a_profile_can_be_changed_in_one_place():
    profile = load_profile("mi210-4").with_gpu(1, pci_unique_id=None, kfd_unique_ids=(0,))

    assert [gpu.pci_unique_id for gpu in profile.gpus] == [
        *(0x012FE4F7FDAF06B9, None, 0xEA35F57CC80DEB35, 0x89CAA15875FF5A43),
    ]


def test_the_card_of_a_headless_gpu_is_not_the_first(simulated):
    host = simulated("headless")
    (gpu,) = find_gpus(host)

    assert (gpu.card_path, gpu.render_path) == ("/dev/dri/card1", "/dev/dri/renderD128")
    assert sorted(name for name in host.names("/sys/class/drm") if name.startswith("card")) == ["card1"]


def test_an_unknown_name_is_answered_with_those_that_exist():
    with pytest.raises(ProfileError) as caught:
        load_profile("mi9000")

    assert str(caught.value) == (
        "there is no profile mi9000 (choose from headless, mi210-4, mi210-8, mi300a-4, mi300x-8, mi300x-8-cpx, "
        "mi300x-vf, mi308x-8-cpx, mi355x-8, no-driver, one-gpu, rx7900xtx-raphael, strix-halo)"
    )


def test_an_unknown_kind_is_answered_with_those_that_exist():
    with pytest.raises(ProfileError) as caught:
        gpu_model("MI9000")

    assert str(caught.value) == (
        "there is no GPU model MI9000 (choose from MI210, MI300A, MI300X, MI308X, MI355X, R9700, RX 7900 XTX, Raphael, "
        "Strix Halo)"
    )


def test_a_file_names_the_kinds_that_come_with_us(tmp_path, simulated):
    file = tmp_path / "mine.json"
    file.write_text('{"gpus": [{"model": "MI210", "pci_address": "0000:03:00.0", "pci_unique_id": "0x1f"}]}')

    assert find_gpus(simulated(str(file)))[0].unique_id == 31


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "profile {file} is not JSON: Expecting property name enclosed in double quotes"),
        ("[" * 100_000, "profile {file} is not JSON: it is nested too deeply"),
        ('{"about": "\\ud800"}', "profile {file} is not JSON: 'utf-8' codec can't encode character '\\ud800'"),
        ("[]", "profile broken cannot be understood: a profile is an object, not a list"),
        ('{"gpus": [{}]}', "profile broken cannot be understood: a GPU has model nothing, which is not described"),
        (
            '{"gpus": [{"model": "?"}]}',
            "profile broken cannot be understood: a GPU has model ?, which is not described",
        ),
        ('{"gpus": [{"model": "MI210"}]}', "profile broken cannot be understood: SimulatedGpu needs pci_address"),
        ('{"gpu": []}', "profile broken cannot be understood: Profile has no gpu"),
        (
            '{"name": "mi210-4"}',
            "profile broken cannot be understood: it has a field `name`, which is that of its file",
        ),
        (
            '{"gpus": [{"model": "MI210", "pci_address": 3}]}',
            "profile broken cannot be understood: pci_address is text, not 3",
        ),
        (
            '{"gpus": [{"model": "MI210", "pci_address": "0000:03:00.0", "pci_unique_id": "serial"}]}',
            "profile broken cannot be understood: invalid literal for int() with base 16: 'serial'",
        ),
        ('{"driver": {"kfd_major": "511"}}', "profile broken cannot be understood: kfd_major is a number, not '511'"),
        ('{"cpus": [{"cores": 1}]}', "profile broken cannot be understood: CpuNode needs memory_bytes"),
    ],
)
def test_a_broken_file_is_named_with_what_is_wrong(tmp_path, text, sentence):
    file = tmp_path / "broken.json"
    file.write_text(text)

    with pytest.raises(ProfileError) as caught:
        load_profile(str(file))

    assert caught.value.message.startswith(sentence.format(file=file))


def test_a_file_without_an_end_is_refused():
    with pytest.raises(ProfileError) as caught:
        load_profile("/dev/zero")

    assert str(caught.value) == ("profile /dev/zero is longer than 1048576 bytes (compare it with a recorded one)")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ProfileError) as caught:
        load_profile(f"{tmp_path}/none.json")

    assert caught.value.message == f"profile {tmp_path}/none.json cannot be read: it does not exist"
