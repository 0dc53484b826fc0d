"""Random config.json with rules and devices that no engine writes: a wrong letter, a repeated key, a comment."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

KEYS = ("allow", "type", "major", "minor", "access")
DENY_ALL = '{"allow":false,"access":"rwm"}'
SPACES = ("", "", "", " ", "\n", "\t ", "\r\n", "/**/", "\f")
VALUES = {
    "allow": ("true", "true", "true", "false", "null", '"true"', "1"),
    "type": ('"c"', '"c"', '"c"', '"b"', '"a"', '""', "null", '"all"', '"char"', '"C"', '"bc"'),
    "major": ("10", "1", "226", "-1", "null", '"226"', "226.0", "2.26e2", "0226", "4322", "4294967522", "22"),
    "minor": ("128", "128", "0", "-1", "null", '"128"', "1.28e2"),
    "access": ('"rwm"', '"rwm"', '"rw"', '"m"', '""', "null"),
}
# Characters that some parsers treat as these letters.
FOLDED = {"s": "\u017f", "k": "\u212a"}


def odd_config(rng: Random, spec: dict[str, object]) -> str:
    """Return `spec` as text with a `linux` of odd rules; the same seed gives the same text.

    Each list of rules first denies everything, like those of engines; otherwise crun denies nothing.
    """
    linux = spec["linux"]
    assert isinstance(linux, dict)
    parts = [f"{json.dumps(key)}:{json.dumps(value)}" for key, value in linux.items()]
    parts += _sections(rng, "resources", lambda: _resources(rng))
    if rng.random() < 0.3:
        parts += _sections(rng, "devices", lambda: _list(rng, [_device(rng)]))
    rest = json.dumps({key: value for key, value in spec.items() if key != "linux"})
    return f'{rest[:-1]},"linux":{{{",".join(parts)}}}}}'


def _sections(rng: Random, name: str, make: Callable[[], str]) -> list[str]:
    """Return a part of the file, sometimes twice with the same or nearly the same name."""
    again = [f'"{_misspelled(rng, name)}":{make()}'] if rng.random() < 0.1 else []
    return [f'"{name}":{make()}', *again]


def _resources(rng: Random) -> str:
    return "{" + ",".join(_sections(rng, "devices", lambda: _rules(rng))) + "}"


def _rules(rng: Random) -> str:
    return _list(rng, [DENY_ALL, *(_rule(rng) for _ in range(rng.randint(1, 3)))])


def _list(rng: Random, entries: list[str]) -> str:
    return "[" + f"{rng.choice(SPACES)},".join(entries) + "]"


def _device(rng: Random) -> str:
    return _odd_object(rng, [("path", '"/dev/x"'), *((key, VALUES[key][0]) for key in ("type", "major", "minor"))])


def _rule(rng: Random) -> str:
    return _odd_object(rng, [(key, rng.choice(VALUES[key][:2])) for key in KEYS])


def _odd_object(rng: Random, fields: list[tuple[str, str]]) -> str:
    """Return an object as engines write it, with zero to three errors."""
    texts = [_field(key, value) for key, value in fields]
    for _ in range(rng.choice((0, 0, 1, 1, 2, 3))):
        place = rng.randrange(len(texts))
        key = rng.choice(KEYS)
        texts[place : place + 1] = rng.choice(
            (
                [],
                [_field(key, rng.choice(VALUES[key]))],
                [texts[place], _field(key, rng.choice(VALUES[key]))],
                [_field(key, rng.choice(VALUES[key])), texts[place]],
                [_field(_misspelled(rng, key), rng.choice(VALUES[key]))],
                [_field(key, rng.choice(VALUES[key]), *rng.choices(SPACES, k=4))],
            )
        )
        texts = texts or ['"x":1']
        if rng.random() < 0.2:
            rng.shuffle(texts)
    return "{" + ",".join(texts) + "}"


def _field(key: str, value: str, *spaces: str) -> str:
    before, behind, inside, end = spaces or ("", "", "", "")
    return f'{before}"{key}"{behind}:{inside}{value}{end}'


def _misspelled(rng: Random, key: str) -> str:
    place = rng.randrange(len(key))
    letter = key[place]
    others = (letter.upper(), rng.choice("abcdefgh"), f"\\u{ord(letter):04x}", FOLDED.get(letter, letter.upper()))
    return f"{key[:place]}{rng.choice(others)}{key[place + 1 :]}"
