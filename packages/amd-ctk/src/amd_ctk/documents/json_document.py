"""Edit single keys of a JSON text and keep every other byte: order, indentation, big numbers, escapes.

`json` parses the text for its values; a second pass over objects finds the position of each key.
"""

from __future__ import annotations

import json
import re
from typing import Any

from amdgpu_discovery.command_line.document import ABSENT, Document, DocumentError, KeyPath
from amdgpu_discovery.value import Value

# Used if the text has no indentation of its own; the original toolkit uses it too.
INDENT = "    "
BYTE_ORDER_MARK = "\ufeff"
EMPTY = "{}\n"
SPACE = re.compile(r"[ \t\r\n]*")
DECODER = json.JSONDecoder()


class Member(Value):
    """A name, its position, and the start and end of its value."""

    name: str
    start: int
    value: int
    end: int


class JsonObject(Value):
    """The positions of an object's braces, and its members."""

    opening: int
    closing: int
    members: tuple[Member, ...]


class JsonDocument(Document):
    """A JSON object as text."""

    def __init__(self, text: str) -> None:
        """Parse a text; DocumentError if it is not one JSON object.

        Like dockerd, this skips a byte order mark and treats an empty text as an empty object.
        """
        self.text = text
        self._mark = BYTE_ORDER_MARK if text.startswith(BYTE_ORDER_MARK) else ""
        self._body = text.removeprefix(self._mark) if text.removeprefix(self._mark).strip() else EMPTY
        self._tree = _parse(self._body)
        self._root = _read_object(self._body, _skip(self._body, 0))

    def set(self, path: KeyPath, value: Any) -> JsonDocument:
        """Set the key at `path` to this value, and create the objects around it."""
        present = [depth for depth in range(1, len(path) + 1) if self.get(path[:depth]) is not ABSENT]
        if len(present) == len(path):
            member = _find_member(self._find_object(path[:-1]), path[-1])
            return self._replace(member.value, member.end, self._write(value, *self._layout_within(path[:-1])))
        depth = len(present)
        for key in reversed(path[depth + 1 :]):
            value = {key: value}
        return self._insert(path[:depth], path[depth], value)

    def remove(self, path: KeyPath) -> JsonDocument:
        """Remove the key at `path`, if there is one."""
        if self.get(path) is ABSENT:
            return self
        outer = self._find_object(path[:-1])
        member = _find_member(outer, path[-1])
        at = outer.members.index(member)
        if len(outer.members) == 1:
            return self._replace(outer.opening + 1, outer.closing, "")
        if at == 0:
            return self._replace(member.start, outer.members[1].start, "")
        return self._replace(outer.members[at - 1].end, member.end, "")

    def _insert(self, path: KeyPath, name: str, value: Any) -> JsonDocument:
        """Add a member after the last one of the object at `path`."""
        outer = self._find_object(path)
        newline, indent = self._layout_within(path)
        member = f"{json.dumps(name)}: {self._write(value, newline, indent)}"
        if outer.members:
            last = outer.members[-1].end
            return self._replace(last, last, f",{newline + indent or ' '}{member}")
        before_closing = newline + indent.removesuffix(self._unit) if newline else ""
        return self._replace(outer.opening + 1, outer.closing, f"{newline}{indent}{member}{before_closing}")

    def _find_object(self, path: KeyPath) -> JsonObject:
        found = self._root
        for key in path:
            found = _read_object(self._body, _find_member(found, key).value)
        return found

    def _layout_within(self, path: KeyPath) -> tuple[str, str]:
        """Return newline and indentation of members of the object at `path`; ("", "") if it is on one line."""
        outer = self._find_object(path)
        if outer.members:
            return self._lead(outer)
        if not path:
            return "\n", INDENT
        newline, indent = self._layout_within(path[:-1])
        return newline, indent + self._unit if newline else ""

    @property
    def _unit(self) -> str:
        """The indentation of one level."""
        return (self._root.members and self._lead(self._root)[1]) or INDENT

    def _lead(self, outer: JsonObject) -> tuple[str, str]:
        lead = self._body[outer.opening + 1 : outer.members[0].start]
        _, newline, indent = lead.rpartition("\r\n" if "\r\n" in lead else "\n")
        return (newline, indent) if newline else ("", "")

    def _write(self, value: Any, newline: str, indent: str) -> str:
        written = json.dumps(value, indent=self._unit if newline else None)
        return written.replace("\n", newline + indent)

    def _replace(self, start: int, end: int, text: str) -> JsonDocument:
        return JsonDocument(self._mark + self._body[:start] + text + self._body[end:])


def _parse(text: str) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    try:
        tree = json.loads(text, parse_constant=refuse)
    except RecursionError as error:
        raise DocumentError("it is nested too deeply") from error
    except ValueError as error:
        raise DocumentError(str(error)) from error
    if not isinstance(tree, dict):
        raise DocumentError("it is not a JSON object", hint="a configuration begins with { and ends with }")
    return tree


def _read_object(text: str, opening: int) -> JsonObject:
    """Return the object at a position of a valid JSON text."""
    members: list[Member] = []
    at = _skip(text, opening + 1)
    while text[at] != "}":
        name, end = DECODER.raw_decode(text, at)
        value = _skip(text, _skip(text, end) + len(":"))
        _, end = DECODER.raw_decode(text, value)
        members.append(Member(name=name, start=at, value=value, end=end))
        at = _skip(text, end)
        at = _skip(text, at + len(",")) if text[at] == "," else at
    return JsonObject(opening=opening, closing=at, members=tuple(members))


def _find_member(outer: JsonObject, name: str) -> Member:
    """Return an existing member; DocumentError if its name is repeated, because parsers use only one of them."""
    found = [member for member in outer.members if member.name == name]
    if len(found) > 1:
        raise DocumentError(f'"{name}" occurs {len(found)} times', hint="keep one of them")
    return found[0]


def _skip(text: str, at: int) -> int:
    """Return the end of the white space at a position."""
    match = SPACE.match(text, at)
    return match.end() if match else at
