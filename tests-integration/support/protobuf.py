"""Encode and decode the few Protocol Buffers messages between tests and engines, by field numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

# A sequence is a repeated field.
Field: TypeAlias = "int | str | Mapping[int, Field] | Sequence[Field]"
Message: TypeAlias = Mapping[int, Field]

VARINT, FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5


def encode(message: Message) -> bytes:
    """Encode a message."""
    return b"".join(_encode_field(number, field) for number, field in message.items())


def decode(content: bytes) -> dict[int, list[int | bytes]]:
    """Decode the fields of a message; nested messages stay bytes."""
    fields: dict[int, list[int | bytes]] = {}
    for number, field in _fields(content):
        fields.setdefault(number, []).append(field)
    return fields


def _encode_field(number: int, field: Field) -> bytes:
    if isinstance(field, int):
        return _varint(number << 3 | VARINT) + _varint(field)
    if isinstance(field, (str, Mapping)):
        content = field.encode() if isinstance(field, str) else encode(field)
        return _varint(number << 3 | DELIMITED) + _varint(len(content)) + content
    return b"".join(_encode_field(number, each) for each in field)


def _varint(number: int) -> bytes:
    """Encode a number in groups of seven bits, the lowest first; all but the last have the highest bit set."""
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])


def _fields(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(content):
        key, at = _read_varint(content, at)
        number, form = key >> 3, key & 7
        if form == VARINT:
            field, at = _read_varint(content, at)
            yield number, field
            continue
        length, at = _read_varint(content, at) if form == DELIMITED else ({FIXED64: 8, FIXED32: 4}[form], at)
        yield number, content[at : at + length]
        at += length


def _read_varint(content: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while content[at] > 0x7F:
        number |= (content[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return number | content[at] << shift, at + 1
