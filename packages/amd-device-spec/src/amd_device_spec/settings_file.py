"""The toolkit's config.toml: change settings, keep the comments, and write the compiled form."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from amd_device_spec.settings import (
    COMPILED_FILE,
    CONFIG_FILE,
    Settings,
    SettingsError,
    check_settings,
    format_compiled,
    is_setting,
    parse_compiled,
    stamp,
    unknown_setting,
)
from amdgpu_discovery.command_line.document import ABSENT, DocumentError
from amdgpu_discovery.command_line.edited import ConfigFile, FileEdit
from amdgpu_discovery.command_line.toml_document import TomlDocument
from amdgpu_discovery.errors import FileError, reason
from amdgpu_discovery.files import make_directories, remove_file, replace_file
from amdgpu_discovery.host import Host

NEW_TEXT = "# Settings of the container toolkit for AMD GPUs; 'amd-ctk config show' lists them all.\n"


def read_settings_file(host: Host) -> dict[str, Any]:
    """Return the settings in config.toml, {} if it does not exist; SettingsError if it is invalid."""
    values: dict[str, Any] = _read_document(host).get(())
    check_settings(values, host.path(CONFIG_FILE))
    return values


def read_written_settings(host: Host) -> Settings:
    """Return the settings from config.toml itself, even if this Python reads only their compiled form."""
    return check_settings(read_settings_file(host), host.path(CONFIG_FILE))


def set_setting(host: Host, key: str, value: Any) -> bool:
    """Set a setting in config.toml, or remove it (None), and compile the file; return whether the file changed."""
    return set_settings(host, {key: value})


def set_settings(host: Host, values: Mapping[str, Any]) -> bool:
    """Set several settings like `set_setting`. Only their combination must be valid."""
    return save_settings(host, prepare_settings(host, values))


def prepare_settings(host: Host, values: Mapping[str, Any]) -> FileEdit:
    """Prepare to set these values, or to remove settings (None); SettingsError."""
    document = new = _read_document(host)
    for key, value in values.items():
        # An unknown key can be removed if the file has it.
        if value is None and document.get((key,)) is ABSENT and not is_setting(key):
            message, hint = unknown_setting(key)
            raise SettingsError(message, hint=hint)
        new = new.remove((key,)) if value is None else new.set((key,), value)
    file = ConfigFile(path=host.path(CONFIG_FILE), shown=CONFIG_FILE)
    check_settings(new.get(()), file.path)
    old = document.text if host.stat(CONFIG_FILE) else None
    return FileEdit(file=file, old=old, new=old if new.text == document.text else new.text)


def save_settings(host: Host, edited: FileEdit) -> bool:
    """Write config.toml and compile it; return whether the file changed."""
    if edited.changed:
        _save(edited.file.path, (edited.new or "").encode())
    if edited.changed or not is_compiled(host):
        compile_settings(host)
    return edited.changed


def compile_settings(host: Host) -> bool:
    """Write the compiled form for container starts; return whether there is a config.toml."""
    values = read_settings_file(host)
    source = host.stat(CONFIG_FILE)
    if source is None:
        _remove_compiled(host)
        return False
    # Readable by all users, because rootless containers read it too.
    replace_file(host.path(COMPILED_FILE), format_compiled(values, stamp(source)), mode=0o644, durable=True)
    return True


def is_compiled(host: Host) -> bool:
    """Return whether the compiled form matches config.toml, or no config.toml exists."""
    source = host.stat(CONFIG_FILE)
    if source is None:
        return True
    try:
        return parse_compiled(host.read(COMPILED_FILE), stamp(source)) is not None
    except OSError:
        return False


def _read_document(host: Host) -> TomlDocument:
    path = host.path(CONFIG_FILE)
    try:
        text = host.read(CONFIG_FILE).decode() if host.stat(CONFIG_FILE) else NEW_TEXT
        return TomlDocument(text)
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {reason(error)}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} cannot be read: byte {error.start} is not UTF-8") from error
    except DocumentError as error:
        raise SettingsError(f"{path} cannot be read: {error.message}", hint="fix it with a text editor") from error


def _save(path: str, content: bytes) -> None:
    hint = "run the command with sudo" if os.geteuid() else ""
    try:
        make_directories(os.path.dirname(path))
        replace_file(path, content, mode=0o644, durable=True)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {reason(error)}", hint=hint) from error
    except FileError as error:
        raise FileError(error.message, hint=hint) from error


def _remove_compiled(host: Host) -> None:
    try:
        remove_file(host.path(COMPILED_FILE))
    except FileNotFoundError:
        return
    except OSError as error:
        raise FileError(f"{host.path(COMPILED_FILE)} cannot be removed: {reason(error)}") from error
