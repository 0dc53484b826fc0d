"""The encoding of Protocol Buffers, with the examples of its documentation."""

from __future__ import annotations

import pytest

from support.protobuf import decode, encode


@pytest.mark.parametrize(
    ("message", "content"),
    [
        ({1: 150}, "08 96 01"),
        ({2: "testing"}, "12 07 74 65 73 74 69 6e 67"),
        ({3: {1: 150}}, "1a 03 08 96 01"),
        ({4: ["a", "b"], 5: []}, "22 01 61 22 01 62"),
    ],
)
def test_a_message_is_written_as_the_documentation_shows(message, content):
    assert encode(message) == bytes.fromhex(content)


def test_fields_are_read_by_number():
    content = encode({1: 150, 2: "testing", 3: {1: 1 << 62}, 4: ["a", "b"]}) + bytes.fromhex("2d 01020304")

    fields = decode(content)

    assert fields == {1: [150], 2: [b"testing"], 3: [encode({1: 1 << 62})], 4: [b"a", b"b"], 5: [b"\1\2\3\4"]}
    assert decode(b"".join(part for part in fields[3] if isinstance(part, bytes))) == {1: [1 << 62]}
