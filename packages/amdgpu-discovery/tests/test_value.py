"""Immutable values behave as frozen dataclasses do."""

from __future__ import annotations

import copy
import pickle

import pytest

from amdgpu_discovery.gpu import DeviceNode, DeviceNumber, PciAddress, parse_pci_address

ADDRESS = PciAddress(domain=0, bus=3, device=0, function=0)


def test_a_value_shows_its_fields():
    assert repr(ADDRESS) == "PciAddress(domain=0, bus=3, device=0, function=0)"


def test_values_are_equal_by_content_and_kind():
    number = DeviceNumber(path="/dev/kfd", major=234, minor=0)

    assert number == DeviceNumber(path="/dev/kfd", major=234, minor=0)
    assert number != DeviceNumber(path="/dev/kfd", major=235, minor=0)
    assert number != DeviceNode(**number.as_dict(), mode=0, uid=0, gid=0)
    assert len({ADDRESS, PciAddress(domain=0, bus=3, device=0, function=0)}) == 1


def test_a_value_cannot_be_changed():
    with pytest.raises(AttributeError, match="PciAddress is immutable"):
        ADDRESS.bus = 4
    with pytest.raises(AttributeError, match="PciAddress is immutable"):
        del ADDRESS.bus
    with pytest.raises(AttributeError):
        ADDRESS.unknown = 1


def test_a_changed_copy_leaves_the_original():
    assert str(ADDRESS.replace(bus=4)) == "0000:04:00.0"
    assert str(ADDRESS) == "0000:03:00.0"


def test_a_field_cannot_be_forgotten_or_made_up():
    with pytest.raises(TypeError, match="DeviceNumber needs minor"):
        DeviceNumber(path="/dev/kfd", major=1)
    with pytest.raises(TypeError, match="PciAddress has no slot"):
        ADDRESS.replace(slot=1)


def test_values_can_be_copied_and_pickled():
    assert copy.deepcopy(ADDRESS) == ADDRESS
    assert pickle.loads(pickle.dumps(ADDRESS)) == ADDRESS


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("0000:03:00.0", "0000:03:00.0"),
        ("03:00.0", "0000:03:00.0"),
        ("0001:C8:1f.7", "0001:c8:1f.7"),
        ("10000:00:04.0", "10000:00:04.0"),
        ("ffffffff:00:04.0", "ffffffff:00:04.0"),
    ],
)
def test_a_pci_address_is_read_and_printed_as_linux_does(text, printed):
    assert str(parse_pci_address(text)) == printed


@pytest.mark.parametrize(
    "text", ["", "0", "0000:03:00", "000:03:00.0", "0000:3:00.0", "0000:03:00.00", "0000:0x:00.0", "bind", "new_id"]
)
def test_other_names_are_no_pci_addresses(text):
    assert parse_pci_address(text) is None


def test_pci_addresses_are_ordered_as_numbers():
    addresses = [parse_pci_address(text) for text in ("10000:00:00.0", "1001:00:00.0", "0000:c8:00.0")]

    assert [str(address) for address in sorted(addresses, key=lambda address: address.sort_key)] == [
        "0000:c8:00.0",
        "1001:00:00.0",
        "10000:00:00.0",
    ]
