"""Record in /var/lib what amd-ctk changed in configuration files, key by key; one process writes at a time.

The records suffice to undo the changes even in a file that was edited since.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from amdgpu_discovery.command_line.document import ABSENT, Document, KeyPath
from amdgpu_discovery.errors import FileError, ToolkitError, reason
from amdgpu_discovery.files import make_directories, replace_file
from amdgpu_discovery.host import Host
from amdgpu_discovery.usage.lock_holder import read_lock_holder
from amdgpu_discovery.value import Value

DIRECTORY = "/var/lib/amd-container-toolkit"
FILE_NAME = "engine-configuration.json"
LOCK_NAME = "engine-configuration.lock"
# An edit takes a second at most; with an engine's check, a few seconds.
LEDGER_SECONDS = 60.0


class Change(Value):
    """A key that amd-ctk set, its value, and the value before (ABSENT for none).

    `by` is the command that reverts the change itself; "" for `runtime configure`.
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
        """Return the change of the key at `path`, None if there is none."""
        return next((change for change in self.keys if change.path == path), None)

    def marked(self, by: str, *, of: Changes) -> Changes:
        """Return the changes; those that are not among the earlier changes `of` are marked as made by `by`."""
        known = {change.path: change.by for change in of.keys}
        keys = (change.replace(by=known.get(change.path, by)) for change in self.keys)
        return self.replace(keys=tuple(keys))

    def unmarked(self) -> Changes:
        """Return the changes as if `runtime configure` had made them all."""
        return self.replace(keys=tuple(change.replace(by="") for change in self.keys))

    def without(self, path: KeyPath) -> Changes:
        """Return the changes except those at `path` or inside it."""
        return self.replace(keys=tuple(change for change in self.keys if change.path[: len(path)] != path))


class LedgerError(ToolkitError):
    """The record cannot be read, so the changes of amd-ctk are unknown."""

    exit_code = 5


class LedgerInUse(ToolkitError):
    """Another process is changing engine configurations and does not finish."""

    exit_code = 10


class Record(Value):
    """The changes of amd-ctk in one configuration file."""

    changes: Changes = Changes()
    # The text before the first change: None if there was no file, ABSENT if the file was edited in between.
    original: Any = ABSENT
    # Whether amd-ctk created the file.
    made_file: bool = False
    # Digest of the file as amd-ctk last wrote it; "" if amd-ctk deleted it.
    written: str = ""
    # The digest and record that --undo restores; None if there is nothing to undo.
    before: dict[str, Any] | None = None


def digest(text: str | None) -> str:
    """Return a digest of a file's text, "" if there is no file."""
    if text is None:
        return ""
    # Imported here, because it loads OpenSSL, and most commands only look.
    from hashlib import sha256

    return sha256(text.encode()).hexdigest()


class Ledger:
    """All records of one host. Changes are on disk when `put` returns."""

    def __init__(self, directory: str) -> None:
        self.path = os.path.join(directory, FILE_NAME)

    def get(self, config_path: str) -> Record:
        """Return the record of a file, an empty one if amd-ctk changed nothing; LedgerError."""
        return record_from_json(self._read().get(config_path, {}))

    def paths(self) -> list[str]:
        """Return the files that have a record; LedgerError."""
        return sorted(self._read())

    def put(self, config_path: str, record: Record) -> None:
        """Store the record of a file; FileError."""
        records = self._read()
        if record == Record():
            records.pop(config_path, None)
        else:
            records[config_path] = record_to_json(record)
        content = json.dumps({"files": records}, indent=2, sort_keys=True) + "\n"
        # Records contain parts of configuration files, which may be secret.
        replace_file(self.path, content.encode(), mode=0o600, durable=True)

    def _read(self) -> dict[str, Any]:
        try:
            with open(self.path, encoding="utf-8") as file:
                records: dict[str, Any] = json.load(file)["files"]
            for record in records.values():
                record_from_json(record)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            words = reason(error) if isinstance(error, OSError) else "it is damaged"
            raise LedgerError(
                f"{self.path}, the record of what amd-ctk changed, cannot be read: {words}",
                hint="move it away; --remove then finds only runtimes that run amd-container-runtime",
            ) from error
        return records


@contextmanager
def open_ledger(host: Host, environment: Mapping[str, str], *, timeout: float = LEDGER_SECONDS) -> Iterator[Ledger]:
    """Give the caller exclusive access to the ledger; LedgerInUse, FileError if its directory cannot be made."""
    directory = ledger_directory(host, environment)
    try:
        make_directories(directory)
    except OSError as error:
        raise FileError(f"{directory} cannot be made: {reason(error)}", hint="run the command with sudo") from error
    with _hold_lock(os.path.join(directory, LOCK_NAME), timeout):
        yield Ledger(directory)


@contextmanager
def _hold_lock(path: str, timeout: float) -> Iterator[None]:
    from filelock import FileLock, Timeout

    # Only its owner can open it: any process that can open a file can lock it, and block all others.
    lock = FileLock(path, timeout=timeout, mode=0o600)
    try:
        lock.acquire()
    except Timeout:
        raise _in_use(path, timeout) from None
    except OSError as error:
        hint = "run the command with sudo" if os.geteuid() else ""
        raise FileError(f"{path} cannot be opened: {reason(error)}", hint=hint) from error
    try:
        yield
    finally:
        lock.release()


def _in_use(path: str, timeout: float) -> LedgerInUse:
    pid = read_lock_holder(path)
    holder = f"process {pid}" if pid else "another process"
    return LedgerInUse(
        f"{path}, the lock of the record of what amd-ctk changed, was not free within {timeout:g} seconds: "
        f"{holder} holds it",
        hint=f"see what it does with 'ps -fp {pid}'" if pid else "try again",
    )


def ledger_directory(host: Host, environment: Mapping[str, str]) -> str:
    """Return the ledger's directory: the host's for root, else the user's own, for rootless engines."""
    if os.geteuid() == 0 or not host.is_this_machine:
        return host.path(DIRECTORY)
    state = environment.get("XDG_STATE_HOME") or os.path.join(environment.get("HOME", "/"), ".local/state")
    return os.path.join(state, "amd-container-toolkit")


def record_to_json(record: Record) -> dict[str, Any]:
    """Return a record as JSON, without fields that are ABSENT."""
    fields = record.as_dict()
    changes: Changes = fields.pop("changes")
    keys = [_change_to_json(change) for change in changes.keys]
    known = {name: value for name, value in fields.items() if value is not ABSENT}
    return {"keys": keys, "tables": changes.tables, **known}


def _change_to_json(change: Change) -> dict[str, Any]:
    fields = {name: value for name, value in change.as_dict().items() if value is not ABSENT}
    # Older versions, to which users may return, do not know this key.
    return fields if change.by else {name: value for name, value in fields.items() if name != "by"}


def record_from_json(fields: dict[str, Any]) -> Record:
    """Return the record that `record_to_json` turned into these fields; ValueError."""
    changes = Changes.from_json(fields, {"Change": Change})
    return Record.from_json(fields).replace(changes=changes)


def set_keys(document: Document, wanted: Iterable[tuple[KeyPath, Any]], changes: Changes) -> tuple[Document, Changes]:
    """Set keys; return the edited document and all changes in it.

    A key that already has its value belongs to the user, so it is no change.
    """
    for path, value in wanted:
        if document.get(path) != value:
            changes = _note(document, path, value, changes)
            document = document.set(path, value)
    return document, changes


def take_back(document: Document, path: KeyPath, changes: Changes) -> tuple[Document, Changes]:
    """Restore a key's value from before its change, unless the key was edited since, and forget the change."""
    change = changes.find(path)
    if change and document.get(path) == change.value:
        document = document.remove(path) if change.before is ABSENT else document.set(path, change.before)
    return document, changes.without(path)


def remove_empty_tables(document: Document, changes: Changes) -> tuple[Document, Changes]:
    """Remove the tables that amd-ctk created and that are now empty."""
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
