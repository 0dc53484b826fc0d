"""Replace a file whole or not at all."""

from __future__ import annotations

import os

from amdgpu_discovery.errors import FileError, reason


def replace_file(path: str, content: bytes, *, mode: int | None = None, durable: bool = False) -> None:
    """Put `content` in place of the file at `path`, which readers see either as it was or as it shall be.

    An existing file keeps its mode and owner, a new one gets `mode` (0644 if not given). A symbolic link is followed,
    so that the link stays and its target changes. `durable` also waits for the disk. FileError where that fails; the
    old file is then untouched and nothing is left beside it.
    """
    try:
        target = os.path.realpath(path)
        temporary = write_beside(target, content, mode=mode, durable=durable)
        put_in_place(temporary, target, durable=durable)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {reason(error)}") from error


def write_beside(path: str, content: bytes, *, mode: int | None = None, durable: bool = False) -> str:
    """Write `content` to a new file beside `path` with the mode and owner of `path`; return its name; OSError.

    The caller either calls `put_in_place` or unlinks it.
    """
    old = _stat_or_none(path)
    temporary = f"{path}.{os.getpid()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(temporary, flags, 0o600)
    except FileExistsError:
        # Left by a process of our own number that was killed; nobody else has this name now.
        os.unlink(temporary)
        descriptor = os.open(temporary, flags, 0o600)
    try:
        try:
            _write_all(descriptor, content)
            _dress(descriptor, old, mode)
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except BaseException:
        os.unlink(temporary)
        raise
    return temporary


def put_in_place(temporary: str, path: str, *, durable: bool = False) -> None:
    """Rename what `write_beside` wrote; OSError, after which the temporary file is gone."""
    try:
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    if durable:
        _sync_directory(os.path.dirname(path) or ".")


def _stat_or_none(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _write_all(descriptor: int, content: bytes) -> None:
    written = os.write(descriptor, content)
    while written < len(content):
        written += os.write(descriptor, content[written:])


def _dress(descriptor: int, old: os.stat_result | None, mode: int | None) -> None:
    if old is None:
        os.fchmod(descriptor, 0o644 if mode is None else mode)
        return
    if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
        os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, old.st_mode & 0o7777)


def _sync_directory(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
