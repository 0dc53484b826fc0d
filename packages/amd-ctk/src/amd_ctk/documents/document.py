"""An engine's configuration as amd-ctk sees it: keys with values inside a text that belongs to the user."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from amdgpu_discovery.errors import ToolkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Self

KeyPath = tuple[str, ...]


class DocumentError(ToolkitError):
    """A text that is not a configuration, or has a structure that cannot hold the keys of the toolkit."""


class Absent:
    """The type of ABSENT."""

    def __repr__(self) -> str:
        return "ABSENT"


# What `get` returns for a key that is not there; None is a value of JSON.
ABSENT = Absent()


class Document(ABC):
    """A configuration text; an edit returns a new one in which every byte of the rest is as it was."""

    text: str
    # What the text means, unless a class has its own way to find that out.
    _tree: dict[str, Any]

    @property
    def is_empty(self) -> bool:
        """Whether it holds no key; there may be comments."""
        return not self._tree

    def get(self, path: KeyPath) -> Any:
        """Return the value at `path`, ABSENT if there is none; DocumentError where an outer value is no table."""
        return read_path(self._tree, path)

    @abstractmethod
    def set(self, path: KeyPath, value: Any) -> Self:
        """Give the key at `path` this value, making the tables around it."""

    @abstractmethod
    def remove(self, path: KeyPath) -> Self:
        """Take the key at `path` out; if there is none, nothing changes."""


def read_path(tree: Any, path: KeyPath) -> Any:
    """Return the value at `path` of nested mappings as `Document.get` does."""
    for depth, key in enumerate(path):
        if not isinstance(tree, dict):
            raise DocumentError(f'"{".".join(path[:depth])}" is not a table of keys and values')
        if key not in tree:
            return ABSENT
        tree = tree[key]
    return tree
