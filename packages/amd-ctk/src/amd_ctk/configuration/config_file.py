"""An engine's configuration file: read it, and replace it with a backup beside it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from amdgpu_discovery.errors import FileError, reason
from amdgpu_discovery.files import (
    make_directories,
    put_in_place,
    read_file,
    remove_file,
    replace_file,
    write_beside,
)
from amdgpu_discovery.value import Value

# Engines that read whole directories read `*.conf` or `*.toml` only.
BACKUP_SUFFIX = ".before-amd-ctk"


class ConfigFileError(FileError):
    """An engine's configuration cannot be read or saved; it was not changed."""

    exit_code = 1


class ConfigFile(Value):
    """A configuration file: `path` on this machine, `shown` as the user knows it (on a simulated host they differ)."""

    path: str
    shown: str

    @property
    def backup(self) -> ConfigFile:
        """The backup beside it: the file as it was before the last change."""
        return ConfigFile(path=self.path + BACKUP_SUFFIX, shown=self.shown + BACKUP_SUFFIX)


def read_text(file: ConfigFile) -> str | None:
    """Return the text of a file, None if there is none; ConfigFileError."""
    try:
        # A pipe in its place would keep the reader waiting.
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


def save_text(file: ConfigFile, text: str | None, *, instead_of: str | None, remember: Callable[[], None]) -> None:
    """Replace the content of `file`, which must still be `instead_of`; None deletes the file. ConfigFileError.

    `remember` is called right before the last step.
    """
    target = os.path.realpath(file.path)
    try:
        if instead_of is None:
            make_directories(os.path.dirname(target))
        temporary = None if text is None else write_beside(target, text.encode(), durable=True)
        try:
            _prepare(file, instead_of)
            remember()
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


def _prepare(file: ConfigFile, text: str | None) -> None:
    """Write the backup, if the file is still what was read."""
    if read_text(file) != text:
        raise ConfigFileError(f"failed to save the config: {file.shown} changed in the meantime", hint="try again")
    if text is not None:
        # The backup is as secret as the file.
        mode = os.stat(file.path).st_mode & 0o7777
        replace_file(file.backup.path, text.encode(), mode=mode, durable=True)


def _unreadable(file: ConfigFile, why: str) -> ConfigFileError:
    return ConfigFileError(f"error reading configuration file: {file.shown} | err: {why}")


def _unsaved(file: ConfigFile, error: OSError) -> ConfigFileError:
    why, hint = reason(error), "run the command with sudo" if os.geteuid() else ""
    # rename(2) says so of a file that is mounted by itself, as `docker run --volume FILE:FILE` does.
    if error.errno == errno.EBUSY:
        why = "it is a mount point and cannot be replaced"
        hint = "edit the file at the source of the mount, or mount its directory instead"
    return ConfigFileError(f"failed to save the config: failed to open file: {file.shown} | err: {why}", hint=hint)
