"""Edit single keys of a TOML text with its comments kept, and prove each edit before it is used."""

from __future__ import annotations

from typing import Any  # noqa: TID253

import tomlkit  # noqa: TID253  no container start comes here
from tomlkit.exceptions import TOMLKitError  # noqa: TID253

from amd_ctk.engines.document import ABSENT, DocumentError, KeyPath, read_path


class TomlDocument:
    """A TOML text."""

    def __init__(self, text: str) -> None:
        """Read a text; DocumentError where it is not TOML, or not one that can be edited without loss."""
        self.text = text
        self._tree: dict[str, Any] = _parse(text).unwrap()

    @property
    def is_empty(self) -> bool:
        """Whether it holds no key; there may be comments."""
        return not self._tree

    def get(self, path: KeyPath) -> Any:
        """Return the value at `path`, ABSENT where there is none; DocumentError where an outer value is no table."""
        return read_path(self._tree, path)

    def set(self, path: KeyPath, value: Any) -> TomlDocument:
        """Give the key at `path` this value, making the tables around it."""
        if self.get(path) == value:
            return self
        document = _parse(self.text)
        table: Any = document
        for depth, key in enumerate(path[:-1], start=1):
            if self.get(path[:depth]) is ABSENT:
                # A table that only holds tables needs no header of its own.
                table[key] = tomlkit.table(is_super_table=depth < len(path) - 1 or isinstance(value, dict))
            table = table[key]
        table[path[-1]] = tomlkit.item(value)
        return _proven(document, _with(self._tree, path, value))

    def remove(self, path: KeyPath) -> TomlDocument:
        """Take the key at `path` out; where there is none, nothing changes."""
        if self.get(path) is ABSENT:
            return self
        document = _parse(self.text)
        table: Any = document
        for key in path[:-1]:
            table = table[key]
        del table[path[-1]]
        return _proven(document, _without(self._tree, path))


def _parse(text: str) -> tomlkit.TOMLDocument:
    try:
        document = tomlkit.parse(text)
    except TOMLKitError as error:
        raise DocumentError(str(error)) from error
    if tomlkit.dumps(document) != text:
        raise DocumentError("it cannot be edited without loss", hint="write its tables in one piece each")
    return document


def _proven(document: tomlkit.TOMLDocument, expected: dict[str, Any]) -> TomlDocument:
    """Return the edited document if it means what it shall: tables that are not in one piece can mislead tomlkit."""
    try:
        edited = TomlDocument(tomlkit.dumps(document))
    except DocumentError as error:
        raise DocumentError("it cannot be edited without loss", hint="write its tables in one piece each") from error
    if _without_empty_tables(edited.get(())) != _without_empty_tables(expected):
        raise DocumentError("it cannot be edited without loss", hint="write its tables in one piece each")
    return edited


def _with(tree: dict[str, Any], path: KeyPath, value: Any) -> dict[str, Any]:
    inner = value if len(path) == 1 else _with(tree.get(path[0], {}), path[1:], value)
    return {**tree, path[0]: inner}


def _without(tree: dict[str, Any], path: KeyPath) -> dict[str, Any]:
    if len(path) == 1:
        return {key: value for key, value in tree.items() if key != path[0]}
    return {**tree, path[0]: _without(tree[path[0]], path[1:])}


def _without_empty_tables(tree: Any) -> Any:
    """Return a tree less the tables that hold nothing: those that have no header of their own go with their content."""
    if not isinstance(tree, dict):
        return tree
    pruned = {key: _without_empty_tables(value) for key, value in tree.items()}
    return {key: value for key, value in pruned.items() if value != {}}
