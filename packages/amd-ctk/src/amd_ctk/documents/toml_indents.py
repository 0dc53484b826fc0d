"""The indentation of a TOML text, so that an added table looks like its neighbours."""

from __future__ import annotations

import re
from typing import Any  # noqa: TID253  no container start comes here

import tomlkit  # noqa: TID253
from tomlkit.exceptions import TOMLKitError  # noqa: TID253

from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.documents.document import KeyPath

HEADER = re.compile(r"([ \t]*)(\[[^\[].*\])[ \t]*(#.*)?$")
KEY = re.compile(r"([ \t]*)[^ \t#\[]")


class Indent(Value):
    """The indentation of a table's header, and of its keys."""

    header: str = ""
    keys: str = ""


class Indentation:
    """The indentation of one text."""

    def __init__(self, text: str) -> None:
        self._by_path: dict[KeyPath, Indent] = {}
        self._unit = ""
        self._read(text)
        pairs = [(self._by_path.get(path[:-1]), indent) for path, indent in self._by_path.items()]
        self._nests = any(outer and len(inner.header) > len(outer.header) for outer, inner in pairs)

    def of(self, path: KeyPath) -> Indent:
        """Return how a table is indented: as it is, else as a table beside it, else as follows from the one around it.

        Where that one has no header of its own, tomlkit loses indentation when it writes a second table beside it.
        """
        if path in self._by_path or not path:
            return self._by_path.get(path, Indent())
        around = self._by_path.get(path[:-1])
        if around is None:
            return Indent(keys=self._unit)
        sibling = next((indent for other, indent in self._by_path.items() if other[:-1] == path[:-1]), None)
        header = around.header + (self._unit if self._nests else "")
        return sibling or Indent(header=header, keys=header + self._unit)

    def indent(self, addition: str) -> str:
        """Return tables that are written without indentation as they look in this text."""
        current = Indent()
        lines = []
        for line in addition.splitlines(keepends=True):
            path = _header_path(line.rstrip("\n"))
            if path:
                current = self._by_path[path] = self.of(path)
            lines.append((current.header if path else current.keys) + line if line.strip() else line)
        return "".join(lines)

    def _read(self, text: str) -> None:
        open_path: KeyPath = ()
        for line in text.splitlines():
            path = _header_path(line)
            if path:
                open_path = path
                self._by_path[path] = Indent(header=_lead(line), keys=_lead(line) + self._unit)
            elif open_path and KEY.match(line):
                header = self._by_path[open_path].header
                self._by_path[open_path] = Indent(header=header, keys=_lead(line))
                self._unit = self._unit or _lead(line).removeprefix(header)
                open_path = ()


def _header_path(line: str) -> KeyPath:
    """Return the path of the table that a line begins, () where it begins none."""
    match = HEADER.match(line)
    if match is None:
        return ()
    try:
        tree: Any = tomlkit.parse(match[2]).unwrap()
    except TOMLKitError:
        return ()
    path: KeyPath = ()
    while tree:
        ((key, tree),) = tree.items()
        path = (*path, key)
    return path


def _lead(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]
