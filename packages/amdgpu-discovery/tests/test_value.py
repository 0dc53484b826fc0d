"""Immutable values behave as frozen dataclasses do."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amdgpu_discovery.gpu import DeviceNode, DeviceNumber, PciAddress, parse_pci_address
from amdgpu_discovery.value import Value

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


class Part(Value):
    name: str
    size: int | None = None


class Whole(Value):
    parts: tuple[Part, ...]
    pair: tuple[int, bool]
    pairs: tuple[tuple[int | None, str], ...] = ()
    words_by_number: dict[int, str] = {}  # noqa: RUF012 - nobody changes it
    anything: dict[str, Any] | None = None
    seconds: float = 0
    unknown: tuple[tuple[str, Any], ...] = ()


TYPES = {"Part": Part}
SOUND = {
    "parts": [{"name": "a"}, {"name": "b", "size": None, "later": 1}],
    "pair": [7, True],
    "pairs": [[None, "x"]],
    "words_by_number": {"3": "three"},
    "anything": {"x": [1]},
    "seconds": 2,
    "later": [1],
}


def test_a_value_is_read_from_json_by_its_annotations():
    assert Whole.from_json(SOUND, TYPES) == Whole(
        parts=(Part(name="a"), Part(name="b")),
        pair=(7, True),
        pairs=((None, "x"),),
        words_by_number={3: "three"},
        anything={"x": [1]},
        seconds=2,
        unknown=(("later", [1]),),
    )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"parts": None}, "parts is a list, not None"),
        ({"parts": [7]}, "Part is an object, not 7"),
        ({"parts": [{}]}, "Part needs name"),
        ({"parts": [{"name": True}]}, "name is text, not True"),
        ({"parts": [{"name": "a", "size": True}]}, "size is a number, not True"),
        ({"pair": [1]}, "pair is a list of 2, not of 1"),
        ({"pair": [1, 0]}, "pair is true or false, not 0"),
        ({"pairs": [[None, None]]}, "pairs is text, not None"),
        ({"words_by_number": {"x": ""}}, "invalid literal for int"),
        ({"words_by_number": []}, "words_by_number is an object, not a list"),
        ({"seconds": "2"}, "seconds is a number, not '2'"),
        ({"seconds": "2" * 1000}, "seconds is a number, not '2{79}$"),
    ],
)
def test_json_of_another_type_is_refused_by_name(changes, problem):
    with pytest.raises(ValueError, match=problem):
        Whole.from_json({**SOUND, **changes}, TYPES)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=5), inside, max_size=3),
    max_leaves=10,
)


@given(name=st.sampled_from([*SOUND]), field=JSON)
def test_whatever_json_says_a_value_has_its_types_or_is_refused(name, field):
    try:
        whole = Whole.from_json({**SOUND, name: field}, TYPES)
    except ValueError:
        return

    assert all(type(part) is Part and type(part.name) is str for part in whole.parts)
    assert [type(each) for each in whole.pair] == [int, bool]
    assert all(len(pair) == 2 and type(pair[0]) in (int, type(None)) for pair in whole.pairs)
    assert all(type(key) is int and type(word) is str for key, word in whole.words_by_number.items())
    assert type(whole.anything) in (dict, type(None))
    assert type(whole.seconds) in (int, float)


def test_an_annotation_that_json_cannot_have_is_a_bug():
    with pytest.raises(TypeError, match="parts: JSON has no Part"):
        Whole.from_json(SOUND)
