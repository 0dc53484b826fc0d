"""Make the directory of the history, without which no reservation is recorded, and set who may read it."""

from __future__ import annotations

import os
from contextlib import suppress

from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.book.unrecorded import HISTORY, clear_failure, note_failure
from amd_gpu_tracker.errors import needs_root
from amdgpu_discovery.errors import FileError, ToolkitError, reason
from amdgpu_discovery.files import DIRECTORY_MODE, TEMPORARY, make_directories, sync_directory

EVERYBODY = "everyone"


class NoSuchGroup(ToolkitError):
    """A group of users that this system does not have."""

    exit_code = 2


def make_history(state: State, *, readers: str = "") -> None:
    """Record reservations from now on, readable only by root and the group `readers`.

    The caller holds the lock. `readers` is the name of a group, or `everyone`. FileError, NotPermitted, NoSuchGroup.
    """
    mode, group = _access_for(readers)
    try:
        _make(state.history_directory, mode, group)
    except OSError as error:
        raise _not_made(state.history_directory, error) from error
    clear_failure(state.run_directory, HISTORY)


def is_history_for(state: State, *, readers: str = "") -> bool:
    """Return whether reservations are recorded for these readers; NoSuchGroup."""
    mode, group = _access_for(readers)
    try:
        status = os.stat(state.history_directory)
    except OSError:
        # `make_history` will report the error.
        return False
    is_theirs = status.st_gid == group or os.geteuid() != 0
    return is_theirs and status.st_mode & 0o7777 == mode and state.records_history


def begin_history(state: State) -> None:
    """Start the history when GPUs are tracked for the first time; if it was turned off, it stays off.

    Lock and errors as `make_history`. A failure is also noted for `report` and `doctor`.
    """
    if os.path.isdir(state.history_directory):
        return
    try:
        make_history(state)
    except ToolkitError as error:
        note_failure(state.run_directory, HISTORY, error.message)
        raise


def _access_for(readers: str) -> tuple[int, int]:
    """Return the mode and the group of the directory."""
    mode = 0o755 if readers == EVERYBODY else 0o750
    return mode, 0 if readers in ("", EVERYBODY) else _find_group(readers)


def _find_group(name: str) -> int:
    # Imported here, because a container start that begins the history needs no group.
    import grp

    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise NoSuchGroup(f"this system has no group {name}", hint="see 'getent group'") from None


def _make(directory: str, mode: int, group: int) -> None:
    """Make the directory and its content in one step: without `open`, it would be a history that was turned off."""
    if os.path.isdir(directory):
        _set_up(directory, mode, group)
        return
    temporary = f"{directory}{TEMPORARY}"
    # Left by a process that was killed; the lock keeps others out.
    _remove(temporary)
    try:
        _set_up(temporary, mode, group)
        sync_directory(temporary)
        os.rename(temporary, directory)
        sync_directory(os.path.dirname(directory))
    except OSError:
        _remove(temporary)
        raise


def _set_up(directory: str, mode: int, group: int) -> None:
    # An engine may start a container with any umask.
    make_directories(directory, ignore_umask=True)
    os.chmod(directory, mode)
    if os.geteuid() == 0:
        os.chown(directory, 0, group)
    make_directories(f"{directory}/open")
    os.chmod(f"{directory}/open", DIRECTORY_MODE)


def _remove(temporary: str) -> None:
    for path in (f"{temporary}/open", temporary):
        with suppress(OSError):
            os.rmdir(path)


def _not_made(directory: str, error: OSError) -> ToolkitError:
    # SELinux, for example, refuses root too.
    if isinstance(error, PermissionError) and os.geteuid() != 0:
        return needs_root()
    if isinstance(error, (FileExistsError, NotADirectoryError)):
        path = error.filename2 or error.filename
        return FileError(f"{path} is not a directory", hint="move it away, then run the command again")
    return FileError(f"{directory} cannot be made: {reason(error)}")
