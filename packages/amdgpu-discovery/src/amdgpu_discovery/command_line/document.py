"""The interface of an engine's configuration: keys with values, in a text that belongs to the user."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from amdgpu_discovery.errors import ToolkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Self

KeyPath = tuple[str, ...]


class DocumentError(ToolkitError):
    """The text is not a configuration, or its structure cannot hold the toolkit's keys."""


class Absent:
    """The type of ABSENT."""

    def __repr__(self) -> str:
        return "ABSENT"


# `get` returns this for a missing key, because None is a JSON value.
ABSENT = Absent()


class Document(ABC):
    """A configuration text. An edit returns a new document in which all other bytes are unchanged."""

    text: str
    # The parsed text, for classes that do not override `get`.
    _tree: dict[str, Any]

    @property
    def is_empty(self) -> bool:
        """Whether the document has no key; it may have comments."""
        return not self._tree

    def get(self, path: KeyPath) -> Any:
        """Return the value at `path`, ABSENT if there is none; DocumentError if an outer value is no table."""
        return read_path(self._tree, path)

    @abstractmethod
    def set(self, path: KeyPath, value: Any) -> Self:
        """Set the key at `path` to this value, and create the tables around it."""

    @abstractmethod
    def remove(self, path: KeyPath) -> Self:
        """Remove the key at `path`, if there is one."""


def read_path(tree: Any, path: KeyPath) -> Any:
    """Return the value at `path` of nested mappings, like `Document.get`."""
    for depth, key in enumerate(path):
        if not isinstance(tree, dict):
            raise DocumentError(f'"{".".join(path[:depth])}" is not a table of keys and values')
        if key not in tree:
            return ABSENT
        tree = tree[key]
    return tree
