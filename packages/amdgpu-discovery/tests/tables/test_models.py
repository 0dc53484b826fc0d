"""The names under which GPUs are sold."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.gpu import PciAddress
from amdgpu_discovery.host import Host
from amdgpu_discovery.tables.models import find_product_names, parse_amdgpu_ids, product_in_hwdb, short_name
from amdgpu_simulator import build_host, load_profile

LIBDRM = """\
# List of AMDGPU IDs
#
# Syntax:
# device_id,\trevision_id,\tproduct_name        <-- single tab after comma

1.0.0
740F,\t02,\tAMD Instinct MI210
744C,\tC8,\tAMD Radeon RX 7900 XTX
744C,\tCC,\tAMD Radeon RX 7900 XT
"""


def write(host, path, text):
    with open(make_parents(host.path(path)), "w", encoding="utf-8") as file:
        file.write(text)


def make_parents(path):
    import os

    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path


def test_the_list_of_libdrm_tells_cards_of_one_device_id_by_revision():
    assert parse_amdgpu_ids(LIBDRM) == {
        (0x740F, 0x02): "AMD Instinct MI210",
        (0x744C, 0xC8): "AMD Radeon RX 7900 XTX",
        (0x744C, 0xCC): "AMD Radeon RX 7900 XT",
    }


@pytest.mark.parametrize("line", ["", "1.0.0", "# 740F,\t02,\tX", "740F,\t02", "74 0F,\t02,\tX", "740F,\t-2,\tX", ",,"])
def test_other_lines_of_the_list_do_not_count(line):
    assert parse_amdgpu_ids(line) == {}


def test_compute_gpus_have_names_on_every_host(tmp_path):
    host = build_host(tmp_path, load_profile("mi210-4"), bare=True)

    assert find_product_names(host, find_gpus(host)) == dict.fromkeys(range(4), "AMD Instinct MI210")


def test_a_graphics_card_has_the_name_of_its_revision(tmp_path):
    host = build_host(tmp_path, load_profile("rx7900xtx-raphael"), bare=True)
    assert find_product_names(host, find_gpus(host)) == {0: "", 1: ""}
    write(host, "/usr/share/libdrm/amdgpu.ids", LIBDRM)
    write(host, "/sys/bus/pci/devices/0000:03:00.0/revision", "0xc8\n")

    assert find_product_names(host, find_gpus(host)) == {0: "AMD Radeon RX 7900 XTX", 1: ""}


def test_the_list_of_amds_driver_packages_goes_before_that_of_the_distribution(tmp_path):
    host = build_host(tmp_path, load_profile("mi210-4"), bare=True)
    revision = host.read_attribute("/sys/bus/pci/devices/0000:03:00.0/revision").removeprefix("0x")
    write(host, "/usr/share/libdrm/amdgpu.ids", f"740F,\t{revision},\told\n")
    write(host, "/opt/amdgpu/share/libdrm/amdgpu.ids", f"740F,\t{revision},\tnew\n")

    assert find_product_names(host, find_gpus(host))[0] == "new"


def test_the_boards_own_name_goes_before_every_list(tmp_path):
    host = build_host(tmp_path, load_profile("mi210-4"), bare=True)
    write(host, "/sys/bus/pci/devices/0000:03:00.0/product_name", "AMD Instinct MI210 of a maker\n")

    assert find_product_names(host, find_gpus(host))[0] == "AMD Instinct MI210 of a maker"


@pytest.mark.parametrize(
    ("model", "product"),
    [
        ("Aldebaran/MI200 [Instinct MI210]", "AMD Instinct MI210"),
        ("Navi 31 [Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M]", "AMD Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M"),
        ("Raphael", "AMD Raphael"),
        ("Something [AMD Radeon]", "AMD Radeon"),
        ("", ""),
    ],
)
def test_the_hardware_database_has_the_product_in_brackets(model, product):
    assert product_in_hwdb(model) == product


def test_a_device_that_udev_does_not_know_is_no_failure(tmp_path):
    gpu = find_gpus(build_host(tmp_path, load_profile("mi210-4"), bare=True))[0]
    nowhere = gpu.replace(pci_address=PciAddress(domain=0xFFFF, bus=0xFF, device=0x1F, function=7))

    # This machine, with its own udev, where pyudev is installed.
    assert find_product_names(Host("/"), [nowhere]) == {0: "AMD Instinct MI210"}


def test_udev_is_opened_once_for_all_gpus_because_each_time_starts_ldconfig(tmp_path, monkeypatch):
    gpus = find_gpus(build_host(tmp_path, load_profile("mi210-4"), bare=True))
    opened = []
    model = SimpleNamespace(properties={"ID_MODEL_FROM_DATABASE": "Aldebaran/MI200 [Instinct MI210 of udev]"})
    devices = SimpleNamespace(from_path=lambda *_: model)
    stand_in = SimpleNamespace(Context=lambda: opened.append(1) or "udev", Devices=devices, DeviceNotFoundError=OSError)
    monkeypatch.setitem(sys.modules, "pyudev", stand_in)

    assert find_product_names(Host("/"), gpus) == dict.fromkeys(range(4), "AMD Instinct MI210 of udev")
    assert opened == [1]


@pytest.mark.parametrize(
    ("model", "product", "shown"),
    [
        ("MI210", "AMD Instinct MI210", "MI210"),
        ("GFX1100", "AMD Radeon RX 7900 XTX", "Radeon RX 7900 XTX"),
        ("GFX1151", "", "GFX1151"),
    ],
)
def test_the_name_in_lists_is_short(model, product, shown):
    assert short_name(model, product) == shown
