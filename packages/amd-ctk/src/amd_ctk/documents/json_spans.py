"""The spans of the values in a JSON text."""

from __future__ import annotations

import json
import re

from amdgpu_discovery.value import Value

SPACE = re.compile(r"[ \t\r\n]*")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
NUMBER_OR_WORD = re.compile(r"[^ \t\r\n,\]}]+")


class JsonNode(Value):
    """The span of a value, and the members if it is an object."""

    start: int
    end: int
    members: tuple[Member, ...] = ()


class Member(Value):
    """A name, where it begins, and its value."""

    name: str
    start: int
    value: JsonNode


def find_spans(text: str) -> JsonNode:
    """Return the node of the outermost value of a text that `json` accepts."""
    return _find(text, _skip(text, 0))


def _find(text: str, start: int) -> JsonNode:
    if text[start] not in "{[":
        return JsonNode(start=start, end=_end(STRING if text[start] == '"' else NUMBER_OR_WORD, text, start))
    members: list[Member] = []
    at = _skip(text, start + 1)
    while text[at] not in "}]":
        if text[start] == "{":
            members.append(_find_member(text, at))
        last = members[-1].value if text[start] == "{" else _find(text, at)
        at = _skip(text, last.end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return JsonNode(start=start, end=at + 1, members=tuple(members))


def _find_member(text: str, start: int) -> Member:
    end = _end(STRING, text, start)
    colon = _skip(text, end)
    return Member(name=json.loads(text[start:end]), start=start, value=_find(text, _skip(text, colon + 1)))


def _skip(text: str, at: int) -> int:
    return _end(SPACE, text, at)


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    assert match, f"json read this text, so there is a value at {at}"  # noqa: S101
    return match.end()
