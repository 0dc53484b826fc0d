"""Edit single keys of a JSON text and leave every other byte alone: order, indentation, big numbers, escapes.

The text is parsed by `json`, for what it means, and scanned once more, for where each key stands.
"""

from __future__ import annotations

import json
import re
from typing import Any

from amd_ctk.documents.document import ABSENT, DocumentError, KeyPath, TreeDocument
from amdgpu_discovery.value import Value

# What a text that shows no indentation of its own gets; the original writes it too.
INDENT = "    "
BYTE_ORDER_MARK = "\ufeff"
EMPTY = "{}\n"
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


class JsonDocument(TreeDocument):
    """A JSON object as text."""

    def __init__(self, text: str) -> None:
        """Read a text; DocumentError where it is not one JSON object.

        As dockerd does, it reads past a byte order mark and takes an empty text for an empty object.
        """
        self.text = text
        self._mark = BYTE_ORDER_MARK if text.startswith(BYTE_ORDER_MARK) else ""
        self._body = text.removeprefix(self._mark) if text.removeprefix(self._mark).strip() else EMPTY
        self._tree = _parse(self._body)
        self._root = _find(self._body, _skip(self._body, 0))

    def set(self, path: KeyPath, value: Any) -> JsonDocument:
        """Give the key at `path` this value, making the objects around it."""
        present = [depth for depth in range(1, len(path) + 1) if self.get(path[:depth]) is not ABSENT]
        if len(present) == len(path):
            node = self._find_node(path)
            return self._replace(node.start, node.end, self._write(value, *self._layout_within(path[:-1])))
        depth = len(present)
        for key in reversed(path[depth + 1 :]):
            value = {key: value}
        return self._insert(path[:depth], path[depth], value)

    def remove(self, path: KeyPath) -> JsonDocument:
        """Remove the key at `path`, if there is one."""
        if self.get(path) is ABSENT:
            return self
        value = self._find_node(path)
        outer = self._find_node(path[:-1])
        at = next(at for at, member in enumerate(outer.members) if member.value is value)
        if len(outer.members) == 1:
            return self._replace(outer.start + 1, outer.end - 1, "")
        if at == 0:
            return self._replace(outer.members[0].start, outer.members[1].start, "")
        return self._replace(outer.members[at - 1].value.end, value.end, "")

    def _insert(self, path: KeyPath, name: str, value: Any) -> JsonDocument:
        """Add a member after the last one of the object at `path`."""
        node = self._find_node(path)
        newline, indent = self._layout_within(path)
        member = f"{json.dumps(name)}: {self._write(value, newline, indent)}"
        if node.members:
            last = node.members[-1].value.end
            return self._replace(last, last, f",{newline + indent or ' '}{member}")
        before_closing = newline + indent.removesuffix(self._unit) if newline else ""
        return self._replace(node.start + 1, node.end - 1, f"{newline}{indent}{member}{before_closing}")

    def _find_node(self, path: KeyPath) -> JsonNode:
        """Return the node of a value; DocumentError for a duplicate name, of which readers use only one."""
        node = self._root
        for key in path:
            found = [member for member in node.members if member.name == key]
            if len(found) > 1:
                raise DocumentError(f'"{key}" occurs {len(found)} times', hint="keep one of them")
            node = found[0].value
        return node

    def _layout_within(self, path: KeyPath) -> tuple[str, str]:
        """Return the newline and the indentation of the members of the object at `path`, ("", "") for a one-liner."""
        node = self._find_node(path)
        if node.members:
            return self._lead(node.start, node.members[0])
        if not path:
            return "\n", INDENT
        newline, indent = self._layout_within(path[:-1])
        return newline, indent + self._unit if newline else ""

    @property
    def _unit(self) -> str:
        """What one level is indented by."""
        return (self._root.members and self._lead(self._root.start, self._root.members[0])[1]) or INDENT

    def _lead(self, opening: int, first: Member) -> tuple[str, str]:
        lead = self._body[opening + 1 : first.start]
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


def _find(text: str, start: int) -> JsonNode:
    """Return the node of the value at a place of a text that `json` accepts."""
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
