"""One edit of one configuration file: read it, edit it, and save it with its record and a backup beside it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from amd_ctk.configuration.engine import Engine
from amd_ctk.configuration.ledger import Changes, Ledger, Record, digest, record_from_json, record_to_json
from amdgpu_discovery.command_line.document import ABSENT, Document, DocumentError
from amdgpu_discovery.command_line.edited import ConfigFile, FileEdit
from amdgpu_discovery.errors import FileError, ToolkitError, reason
from amdgpu_discovery.files import (
    make_directories,
    put_in_place,
    read_file,
    remove_file,
    replace_file,
    write_beside,
)

Edit = Callable[[Document, Changes], tuple[Document, Changes]]


class EngineEdit(FileEdit):
    """An edit of an engine's file. `record` is the new record of the file."""

    record: Record = Record()


def prepare_edit(engine: Engine, file: ConfigFile, edit: Edit, record: Record) -> EngineEdit:
    """Prepare an edit; ToolkitError with the original toolkit's words if the file cannot be edited."""
    try:
        old = read_text(file)
        document, changes = _edit(engine, file, edit, old, record.changes)
    except (ConfigFileError, DocumentError) as error:
        prefix = f"failed to init config for runtime engine: {engine.name} | err: "
        raise ConfigFileError(prefix + error.message, hint=error.hint) from error
    if old is None and document.text == engine.new_text:
        new = None
    else:
        new = document.text if changes.keys else _text_after_removal(engine, document, old, record, edit)
    return EngineEdit(file=file, old=old, new=new, record=_next_record(record, changes, old, new))


def prepare_undo(file: ConfigFile, record: Record) -> EngineEdit:
    """Prepare to restore the file from before the last change; ConfigFileError if that version is lost."""
    old = read_text(file)
    if record.before is None:
        raise ConfigFileError(f"there is nothing to undo in {file.shown}")
    if digest(old) != record.written:
        raise ConfigFileError(
            f"{file.shown} was edited since amd-ctk changed it", hint="use --remove to remove only what amd-ctk added"
        )
    new = read_text(file.backup) if record.before["digest"] else None
    if digest(new) != record.before["digest"]:
        raise ConfigFileError(f"{file.backup.shown} is not the backup that amd-ctk made", hint="use --remove")
    return EngineEdit(file=file, old=old, new=new, record=record_from_json(record.before["record"]))


def save(edited: EngineEdit, ledger: Ledger) -> None:
    """Write an edit and its record. After a ToolkitError, the file and the record are as before."""
    name = edited.file.shown
    before = ledger.get(name)
    try:
        _save(edited, ledger)
    except ToolkitError:
        if ledger.get(name) != before:
            ledger.put(name, before)
        raise


def _edit(engine: Engine, file: ConfigFile, edit: Edit, old: str | None, changes: Changes) -> tuple[Document, Changes]:
    try:
        return edit(engine.read(engine.new_text if old is None else old), changes)
    except DocumentError as error:
        message = f"error decoding configuration file: {file.shown} | err: {error.message}"
        raise DocumentError(message, hint=error.hint) from error


def _text_after_removal(engine: Engine, document: Document, old: str | None, record: Record, edit: Edit) -> str | None:
    """Return the text once all changes of amd-ctk are removed: the original bytes, if they are known."""
    if record.original is not ABSENT and digest(old) == record.written:
        # The original may have a runtime of AMD's toolkit 1.x, which no record lists.
        return None if record.original is None else edit(engine.read(str(record.original)), Changes())[0].text
    if record.made_file and document.text.strip() == engine.new_text.strip():
        return None
    return document.text


def _next_record(record: Record, changes: Changes, old: str | None, new: str | None) -> Record:
    if old == new:
        return record.replace(changes=changes)
    before = {"digest": digest(old), "record": record_to_json(record.replace(before=None))}
    if not changes.keys:
        return Record(written=digest(new), before=before)
    if digest(old) == record.written and record.changes.keys:
        original = record.original
    else:
        original = ABSENT if record.changes.keys else old
    made_file = old is None or (record.made_file and bool(record.changes.keys))
    return Record(changes=changes, original=original, made_file=made_file, written=digest(new), before=before)


class ConfigFileError(FileError):
    """An engine's configuration cannot be read or saved. It is unchanged."""

    exit_code = 1


def read_text(file: ConfigFile) -> str | None:
    """Return the text of a file, None if there is none; ConfigFileError."""
    try:
        # Opening a pipe in its place must not block.
        return read_file(file.path, flags=os.O_NONBLOCK).decode()
    except FileNotFoundError:
        if os.path.islink(file.path):
            raise _unreadable(file, "it is a symbolic link to a file that does not exist") from None
        return None
    except IsADirectoryError as error:
        raise _unreadable(file, f"read {file.shown}: is a directory") from error
    except OSError as error:
        raise _unreadable(file, reason(error)) from error
    except UnicodeDecodeError as error:
        raise _unreadable(file, f"byte {error.start} is not UTF-8") from error


def _save(edited: EngineEdit, ledger: Ledger) -> None:
    """If the file has not changed since it was read, write its record, then replace or delete it; ConfigFileError."""
    file = edited.file
    target = os.path.realpath(edited.file.path)
    try:
        if edited.old is None:
            make_directories(os.path.dirname(target))
        temporary = None if edited.new is None else write_beside(target, edited.new.encode(), durable=True)
        try:
            _back_up(file, edited.old)
            ledger.put(file.shown, edited.record)
        except BaseException:
            if temporary:
                os.unlink(temporary)
            raise
        if temporary:
            put_in_place(temporary, target, durable=True)
        else:
            remove_file(target)
    except OSError as error:
        raise _unsaved(file, error) from error


def _back_up(file: ConfigFile, text: str | None) -> None:
    """Write the backup, if the file has not changed since it was read."""
    if read_text(file) != text:
        raise ConfigFileError(f"failed to save the config: {file.shown} changed in the meantime", hint="try again")
    if text is not None:
        # The backup may contain the same secrets as the file.
        mode = os.stat(file.path).st_mode & 0o7777
        replace_file(file.backup.path, text.encode(), mode=mode, durable=True)


def _unreadable(file: ConfigFile, why: str) -> ConfigFileError:
    return ConfigFileError(f"error reading configuration file: {file.shown} | err: {why}")


def _unsaved(file: ConfigFile, error: OSError) -> ConfigFileError:
    why = reason(error)
    hint = "run the command with sudo" if os.geteuid() else ""
    # rename(2) fails so for a file that is a mount point, as with `docker run --volume FILE:FILE`.
    if error.errno == errno.EBUSY:
        why = "it is a mount point and cannot be replaced"
        hint = "edit the file at the source of the mount, or mount its directory instead"
    return ConfigFileError(f"failed to save the config: failed to open file: {file.shown} | err: {why}", hint=hint)
