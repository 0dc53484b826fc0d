"""Edit single keys of a TOML text, keep its comments, and check each edit before it is used."""

from __future__ import annotations

from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table

from amdgpu_discovery.command_line.document import ABSENT, Document, DocumentError, KeyPath

LOSSY = "it cannot be edited without loss"
IN_ONE_PIECE = "write each table in one piece"


class TomlDocument(Document):
    """A TOML text."""

    def __init__(self, text: str) -> None:
        """Parse a text; DocumentError if it is not TOML, or cannot be edited without loss."""
        self.text = text
        self._tree: dict[str, Any] = _parse(text).unwrap()

    def set(self, path: KeyPath, value: Any) -> TomlDocument:
        """Set the key at `path` to this value, and create the tables around it."""
        if self.get(path) == value:
            return self
        expected = _with(self._tree, path, value)
        if isinstance(value, dict) or self.get(path[:-1]) is ABSENT:
            try:
                return _checked(self._appended(path, value), expected)
            except DocumentError:
                # A table inside an inline table cannot be added at the end of the file.
                return _checked(self._inserted(path, value), expected)
        return _checked(self._inserted(path, value), expected)

    def _appended(self, path: KeyPath, value: Any) -> str:
        """Return the text with a new table at its end; the rest is unchanged."""
        addition = tomlkit.document()
        table: Any = addition
        last = len(path) - 1
        for depth, key in enumerate(path[:-1], start=1):
            # A table that contains only tables needs no header of its own.
            table[key] = tomlkit.table(is_super_table=depth < last or isinstance(value, dict))
            table = table[key]
        table[path[-1]] = tomlkit.item(value)
        if not self.text:
            return tomlkit.dumps(addition)
        gap = "\n" if self.text.endswith("\n") else "\n\n"
        return f"{self.text}{gap}{tomlkit.dumps(addition)}"

    def _inserted(self, path: KeyPath, value: Any) -> str:
        """Return the text with the key in an existing table."""
        document = _parse(self.text)
        table: Any = document
        for depth, key in enumerate(path[:-1], start=1):
            if self.get(path[:depth]) is ABSENT:
                table[key] = tomlkit.table()
            table = table[key]
        is_new = path[-1] not in table
        added = table[path[-1]] = tomlkit.item(value)
        if is_new and isinstance(table, Table):
            # Indent like the first key of the table.
            added.trivia.indent = next(item.trivia.indent for key, item in table.value.body if key)
        return tomlkit.dumps(document)

    def remove(self, path: KeyPath) -> TomlDocument:
        """Remove the key at `path`, if there is one."""
        if self.get(path) is ABSENT:
            return self
        document = _parse(self.text)
        table: Any = document
        for key in path[:-1]:
            table = table[key]
        del table[path[-1]]
        return _checked(tomlkit.dumps(document), _without(self._tree, path))


def _parse(text: str) -> tomlkit.TOMLDocument:
    try:
        document = tomlkit.parse(text)
    except TOMLKitError as error:
        raise DocumentError(str(error)) from error
    # Older versions of tomlkit do not limit the nesting of values.
    except RecursionError as error:
        raise DocumentError("it is nested too deeply") from error
    if tomlkit.dumps(document) != text:
        raise DocumentError(LOSSY, hint=IN_ONE_PIECE)
    return document


def _checked(text: str, expected: dict[str, Any]) -> TomlDocument:
    """Return the edited text if it parses to `expected`; tomlkit can misplace keys of tables that are split up."""
    try:
        edited = TomlDocument(text)
    except DocumentError as error:
        raise DocumentError(LOSSY, hint=IN_ONE_PIECE) from error
    if _without_empty_tables(edited.get(())) != _without_empty_tables(expected):
        raise DocumentError(LOSSY, hint=IN_ONE_PIECE)
    return edited


def _with(tree: dict[str, Any], path: KeyPath, value: Any) -> dict[str, Any]:
    inner = value if len(path) == 1 else _with(tree.get(path[0], {}), path[1:], value)
    return {**tree, path[0]: inner}


def _without(tree: dict[str, Any], path: KeyPath) -> dict[str, Any]:
    if len(path) == 1:
        return {key: value for key, value in tree.items() if key != path[0]}
    return {**tree, path[0]: _without(tree[path[0]], path[1:])}


def _without_empty_tables(tree: Any) -> Any:
    """Return a tree without empty tables, because a table without a header disappears with its last key."""
    if not isinstance(tree, dict):
        return tree
    pruned = {key: _without_empty_tables(value) for key, value in tree.items()}
    return {key: value for key, value in pruned.items() if value != {}}
