"""What amd-ctk changed in a configuration, key by key: enough to undo it even in a file that was edited since."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from amd_ctk.documents.document import ABSENT, Document, KeyPath
from amdgpu_discovery.value import Value


class Change(Value):
    """A key that amd-ctk set, its value, and the value before (ABSENT for none).

    `by` is the command that takes it back itself; "" for `runtime configure`.
    """

    path: tuple[str, ...]
    value: Any
    before: Any = ABSENT
    by: str = ""


class Changes(Value):
    """All changes in one file: keys, and the tables that were created around them."""

    keys: tuple[Change, ...] = ()
    tables: tuple[tuple[str, ...], ...] = ()

    def find(self, path: KeyPath) -> Change | None:
        """Return the change of the key at `path`."""
        return next((change for change in self.keys if change.path == path), None)

    def marked(self, by: str, *, of: Changes) -> Changes:
        """Return the changes, with those that are not among the changes `of` an earlier time as this command's."""
        known = {change.path: change.by for change in of.keys}
        keys = (change.replace(by=known.get(change.path, by)) for change in self.keys)
        return self.replace(keys=tuple(keys))

    def unmarked(self) -> Changes:
        """Return the changes as if `runtime configure` had made them all."""
        return self.replace(keys=tuple(change.replace(by="") for change in self.keys))

    def without(self, path: KeyPath) -> Changes:
        """Return the changes without those at `path` or within it."""
        return self.replace(keys=tuple(change for change in self.keys if change.path[: len(path)] != path))


def set_keys(document: Document, wanted: Iterable[tuple[KeyPath, Any]], changes: Changes) -> tuple[Document, Changes]:
    """Set keys; return the edited document and all changes in it.

    A key that has its value already belongs to the user and is no change.
    """
    for path, value in wanted:
        if document.get(path) != value:
            changes = _note(document, path, value, changes)
            document = document.set(path, value)
    return document, changes


def take_back(document: Document, path: KeyPath, changes: Changes) -> tuple[Document, Changes]:
    """Restore the value of a key from before its change, unless it was edited since; forget the change."""
    change = changes.find(path)
    if change and document.get(path) == change.value:
        document = document.remove(path) if change.before is ABSENT else document.set(path, change.before)
    return document, changes.without(path)


def remove_empty_tables(document: Document, changes: Changes) -> tuple[Document, Changes]:
    """Remove the tables that amd-ctk created and that are empty."""
    for table in sorted(changes.tables, key=len, reverse=True):
        if document.get(table) == {}:
            document = document.remove(table)
    return document, changes.replace(
        tables=tuple(table for table in changes.tables if document.get(table) is not ABSENT)
    )


def _note(document: Document, path: KeyPath, value: Any, changes: Changes) -> Changes:
    current = document.get(path)
    known = changes.find(path)
    before = known.before if known and known.value == current else current
    made = tuple(path[:depth] for depth in range(1, len(path)) if document.get(path[:depth]) is ABSENT)
    return changes.without(path).replace(
        keys=(*changes.without(path).keys, Change(path=path, value=value, before=before)),
        tables=(*changes.tables, *(table for table in made if table not in changes.tables)),
    )
