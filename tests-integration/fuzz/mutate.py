"""Changes to an input that a parser may meet: of bytes, of numbers and words, and of JSON with its shape kept."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

# Where parsers go wrong: edges of integers, what python takes for a digit or a space, brackets, escapes, no UTF-8.
TOKENS = (
    *(b"0", b"-1", b"4294967296", b"18446744073709551616", b"9" * 5000, b"1e999", b"NaN", b"0x", b"\xc2\xb2", b"1_0"),
    *(b"\0", b"\n", b"\r", b"\xff", b"\xe2\x80\xae", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\x1b[2J", b" ", b"\t"),
    *(b"{", b"}", b"[", b"]", b'"', b"'", b",", b":", b"=", b"-", b"..", b"/", b"\\", b"\\ud800", b"#", b"%", b"$"),
    *(b"[" * 3000, b"- " * 3000, b'{"a":' * 3000, b"&a [*a]", b"&a {<<: *a, b: 1}", b"<<: *a", b"/" + b"a" * 300),
    *(b"0-99999999", b"all", b"none", b"null", b"true", b"../../etc/passwd"),
)
VALUES = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1 << 63,
        1 << 4000,
        1e308,
        float("inf"),
        "",
        "0",
        "\0",
        "\ud800",
        "\u202e",
        "x" * 10_000,
    ),
    *([], {}, [[]], [None] * 100, {"": None}, ["a", 1, None], "/", "..", "/dev/../etc", "0-99999999"),
)
NUMBER = re.compile(rb"-?\d+")


def mutate(seed: bytes, chance: random.Random) -> bytes:
    """Return a seed with one to four changes."""
    for _ in range(chance.randint(1, 4)):
        seed = chance.choice(CHANGES)(seed, chance)
    return seed


def _flip(text: bytes, chance: random.Random) -> bytes:
    if not text:
        return text
    place = chance.randrange(len(text))
    return text[:place] + bytes([chance.randrange(256)]) + text[place + 1 :]


def _insert(text: bytes, chance: random.Random) -> bytes:
    place = chance.randint(0, len(text))
    return text[:place] + chance.choice(TOKENS) + text[place:]


def _cut(text: bytes, chance: random.Random) -> bytes:
    start, end = sorted((chance.randint(0, len(text)), chance.randint(0, len(text))))
    return text[:start] + text[end:]


def _repeat(text: bytes, chance: random.Random) -> bytes:
    start = chance.randint(0, len(text))
    piece = text[start : start + chance.randint(1, 40)]
    return text[:start] + piece * chance.choice((2, 3, 500)) + text[start:]


def _renumber(text: bytes, chance: random.Random) -> bytes:
    numbers = list(NUMBER.finditer(text))
    if not numbers:
        return text
    found = chance.choice(numbers)
    return text[: found.start()] + chance.choice(TOKENS) + text[found.end() :]


def _reshape(text: bytes, chance: random.Random) -> bytes:
    """Change a value of a JSON text, or take it away."""
    try:
        tree = [json.loads(text)]
    except (ValueError, RecursionError):
        return _insert(text, chance)
    holder, key = chance.choice(_places(tree))
    if chance.random() < 0.2 and holder is not tree:
        del holder[key]
    else:
        holder[key] = chance.choice(VALUES)
    return _text(tree[0])


def _places(tree: Any) -> list[tuple[Any, Any]]:
    keys = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    return [place for key in keys for place in ((tree, key), *_places(tree[key]))]


def _text(tree: Any) -> bytes:
    try:
        return json.dumps(tree).encode("utf-8", "surrogatepass")
    # An integer of more digits than python writes.
    except ValueError:
        return b"1" * 5000


CHANGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip,
    _insert,
    _cut,
    _repeat,
    _renumber,
    _reshape,
    _reshape,
)
