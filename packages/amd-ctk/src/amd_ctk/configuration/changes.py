"""What we changed in a configuration, key by key: enough to take it back even from a file that was edited since."""

from __future__ import annotations

from typing import Any  # noqa: TID253

from amd_ctk.documents.document import ABSENT, Document, KeyPath
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class Change(Value):
    """A key that we gave a value, and the one it had before (ABSENT for none)."""

    path: KeyPath
    value: Any
    before: Any


class Changes(Value):
    """All that is ours in one file: keys, and the tables that we made around them."""

    keys: tuple[Change, ...] = ()
    tables: tuple[KeyPath, ...] = ()

    def find(self, path: KeyPath) -> Change | None:
        """Return our change of the key at `path`."""
        return next((change for change in self.keys if change.path == path), None)

    def without(self, path: KeyPath) -> Changes:
        """Return these without what concerns the key at `path` or keys within it."""
        return self.replace(keys=tuple(change for change in self.keys if change.path[: len(path)] != path))


def set_keys(document: Document, wanted: Iterable[tuple[KeyPath, Any]], ours: Changes) -> tuple[Document, Changes]:
    """Give keys their values; return the edited document and what is ours in it then.

    A key that has its value already is somebody's own and does not become ours.
    """
    for path, value in wanted:
        if document.get(path) != value:
            ours = _note(document, path, value, ours)
            document = document.set(path, value)
    return document, ours


def take_back(document: Document, path: KeyPath, ours: Changes) -> tuple[Document, Changes]:
    """Give a key the value it had before us, unless somebody has changed it since; it is not ours any more."""
    change = ours.find(path)
    if change and document.get(path) == change.value:
        document = document.remove(path) if change.before is ABSENT else document.set(path, change.before)
    return document, ours.without(path)


def remove_empty_tables(document: Document, ours: Changes) -> tuple[Document, Changes]:
    """Take out the tables that we made and that hold nothing any more."""
    for table in sorted(ours.tables, key=len, reverse=True):
        if document.get(table) == {}:
            document = document.remove(table)
    return document, ours.replace(tables=tuple(table for table in ours.tables if document.get(table) is not ABSENT))


def _note(document: Document, path: KeyPath, value: Any, ours: Changes) -> Changes:
    current = document.get(path)
    known = ours.find(path)
    before = known.before if known and known.value == current else current
    made = tuple(path[:depth] for depth in range(1, len(path)) if document.get(path[:depth]) is ABSENT)
    return ours.without(path).replace(
        keys=(*ours.without(path).keys, Change(path=path, value=value, before=before)),
        tables=(*ours.tables, *(table for table in made if table not in ours.tables)),
    )
