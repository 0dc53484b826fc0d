"""Reads, appends to and atomically replaces files, and handles paths without `os.path`.

Importing `os` takes a millisecond, a tenth of a container start. `posix`, the C half below it, is already loaded. So
modules that every start loads use `posix` and these functions, which leave unusual paths to `os.path`.
"""

from __future__ import annotations

import posix
import time

from amdgpu_discovery.errors import FileError, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

# inode(7); the module `stat` has the same constants, but would have to be imported.
FILE_TYPE = 0o170000
DIRECTORY = 0o040000
REGULAR_FILE = 0o100000
SYMBOLIC_LINK = 0o120000
CHARACTER_DEVICE = 0o020000
PERMISSIONS = 0o007777
STICKY = 0o001000
WRITABLE_BY_GROUP = 0o000020
WRITABLE_BY_ALL = 0o000002

# A temporary file has this ending until it is renamed. A killed process leaves it behind: one older than OLD_SECONDS
# will not be renamed any more.
OLD_SECONDS = 60
TEMPORARY = ".tmp"
READ_AT_ONCE = 65536
# No file that this project reads has a thousandth of this. A link may lead to /dev/zero, which has no end.
LARGEST_FILE = 64 * 1024 * 1024
DIRECTORY_MODE = 0o755


def read_file(path: str, *, flags: int = 0, largest: int | None = None) -> bytes:
    """Return the content of a file; OSError as from the kernel. `flags` are additional ones of open(2).

    Set `largest`, in bytes, if an untrusted process decides what there is to read; a larger file is an OSError.
    """
    descriptor = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC | flags)
    try:
        if largest is not None:
            return read_to_end(descriptor, largest)
        content = posix.read(descriptor, READ_AT_ONCE)
        # A short read is the end of a file; most of sysfs and /proc is smaller than one page.
        return content if len(content) < READ_AT_ONCE else content + _read_rest(descriptor)
    finally:
        posix.close(descriptor)


def _read_rest(descriptor: int) -> bytes:
    chunks = [posix.read(descriptor, READ_AT_ONCE)]
    while len(chunks[-1]) == READ_AT_ONCE:
        if len(chunks) * READ_AT_ONCE > LARGEST_FILE:
            _refuse_large()
        chunks.append(posix.read(descriptor, READ_AT_ONCE))
    return b"".join(chunks)


def _refuse_large() -> None:
    import errno

    raise OSError(errno.EFBIG, "it is too large")


def read_to_end(descriptor: int, largest: int) -> bytes:
    """Return everything up to the end of a file; OSError if that is more than `largest` bytes.

    Lists such as /proc/PID/mountinfo come in pieces of a page, so only an empty read is their end.
    """
    chunks, left = [], largest
    while chunk := posix.read(descriptor, min(READ_AT_ONCE, left + 1)):
        chunks.append(chunk)
        left -= len(chunk)
        if left < 0:
            _refuse_large()
    return b"".join(chunks)


def read_files(paths: Iterable[str], *, flags: int = 0) -> list[bytes | OSError]:
    """Return for each file its content, or the error if it cannot be read. `flags` are additional ones of open(2)."""
    found: list[bytes | OSError] = []
    for path in paths:
        try:
            found.append(read_file(path, flags=flags))
        except OSError as error:
            found.append(error)
    return found


def append_to_file(path: str, content: bytes, *, flags: int = 0) -> None:
    """Append to a file in one write; all may read a new file. OSError. `flags` are additional ones of open(2)."""
    flags |= posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_CLOEXEC
    descriptor = posix.open(path, flags, 0o644)
    try:
        posix.write(descriptor, content)
    finally:
        posix.close(descriptor)


def replace_file(path: str, content: bytes, *, mode: int | None = None, durable: bool = False) -> None:
    """Replace the file at `path` by `content`; readers see either the old file or the new one.

    An existing file keeps its mode and owner; a new one gets `mode` (0644 if not given). A symbolic link stays, and its
    target is replaced. `durable` also waits for the disk, and removes what killed processes left beside the file.
    Raises FileError if the file cannot be replaced; the old one is then untouched and nothing is left beside it.
    """
    try:
        target = resolve_links(path)
        temporary = write_beside(target, content, mode=mode, durable=durable)
        put_in_place(temporary, target, durable=durable)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {reason(error)}") from error
    if durable:
        _sweep(target)


def _sweep(path: str) -> None:
    """Remove the temporary files of `write_beside` whose processes are gone.

    A recent one stays: its process may live in another pid namespace.
    """
    directory, _, name = path.rpartition("/")
    for found in posix.listdir(directory or "/"):
        number = found.removeprefix(f"{name}.").removesuffix(TEMPORARY)
        if found != f"{name}.{number}{TEMPORARY}" or not number.isdecimal() or exists(f"/proc/{number}"):
            continue
        left = f"{directory}/{found}"
        try:
            if time.time() - posix.stat(left, follow_symlinks=False).st_mtime > OLD_SECONDS:
                posix.unlink(left)
        except OSError:
            continue


def write_new_file(path: str, content: bytes, *, mode: int, owner: int | None = None) -> None:
    """Write a new file in place of a file or a symbolic link at `path`; FileError as `replace_file`.

    Nothing of the old file is kept, and no link is followed, so this is for directories in which other users may write.
    The file belongs to the caller; root may name another `owner`.
    """
    try:
        put_in_place(write_beside(path, content, mode=mode, keep_owner=False, owner=owner), path)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {reason(error)}") from error


def write_beside(
    path: str,
    content: bytes,
    *,
    mode: int | None = None,
    durable: bool = False,
    keep_owner: bool = True,
    owner: int | None = None,
) -> str:
    """Write `content` to a new file beside `path` with the mode and owner of `path`; return its name. OSError.

    Without `keep_owner` the file gets `mode`, and belongs to `owner` or to the caller. The caller must call
    `put_in_place` or unlink it.
    """
    old = _stat_or_none(path) if keep_owner else None
    temporary = f"{path}.{posix.getpid()}{TEMPORARY}"
    flags = posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC | posix.O_NOFOLLOW
    try:
        descriptor = posix.open(temporary, flags, 0o600)
    except FileExistsError:
        # A killed process that had the same pid left this file. No other process uses this name.
        posix.unlink(temporary)
        descriptor = posix.open(temporary, flags, 0o600)
    try:
        try:
            _write_all(descriptor, content)
            _set_access(descriptor, old, mode)
            if owner is not None:
                posix.fchown(descriptor, owner, -1)
            if durable:
                posix.fsync(descriptor)
        finally:
            posix.close(descriptor)
    except BaseException:
        posix.unlink(temporary)
        raise
    return temporary


def put_in_place(temporary: str, path: str, *, durable: bool = False) -> None:
    """Rename a file of `write_beside` to `path`; OSError, after which the temporary file is gone."""
    try:
        posix.replace(temporary, path)
    except BaseException:
        posix.unlink(temporary)
        raise
    if durable:
        sync_directory(directory_of(path))


def remove_file(path: str) -> None:
    """Remove a file and wait for the disk, so that no power cut brings the file back; OSError as from the kernel."""
    posix.unlink(path)
    sync_directory(directory_of(path))


def make_directories(path: str, *, ignore_umask: bool = False) -> None:
    """Make a directory and its missing parents; OSError names the one that cannot be made.

    Only their owner may write. With `ignore_umask` all users may read, otherwise those that the umask allows.
    """
    if is_directory(path):
        return
    parent = directory_of(path)
    if not exists(parent):
        make_directories(parent, ignore_umask=ignore_umask)
    elif not is_directory(parent):
        import errno

        raise NotADirectoryError(errno.ENOTDIR, "it is not a directory", parent)
    try:
        posix.mkdir(path, DIRECTORY_MODE)
        if ignore_umask:
            posix.chmod(path, DIRECTORY_MODE)
    except FileExistsError:
        if not is_directory(path):
            raise


def _stat_or_none(path: str) -> os.stat_result | None:
    try:
        return posix.stat(path)
    except FileNotFoundError:
        return None


def _write_all(descriptor: int, content: bytes) -> None:
    written = posix.write(descriptor, content)
    while written < len(content):
        written += posix.write(descriptor, content[written:])


def _set_access(descriptor: int, old: os.stat_result | None, mode: int | None) -> None:
    if old is None:
        posix.fchmod(descriptor, 0o644 if mode is None else mode)
        return
    if (old.st_uid, old.st_gid) != (posix.geteuid(), posix.getegid()):
        posix.fchown(descriptor, old.st_uid, old.st_gid)
    posix.fchmod(descriptor, old.st_mode & 0o7777)


def sync_directory(directory: str) -> None:
    """Wait until the names in a directory are on the disk. Raises OSError."""
    descriptor = posix.open(directory, posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC)
    try:
        posix.fsync(descriptor)
    finally:
        posix.close(descriptor)


def absolute(path: str) -> str:
    """Return the same path as os.path.abspath."""
    odd = "//" in path or "/./" in path or "/../" in path or path.endswith(("/", "/.", "/.."))
    if path == "/" or (path.startswith("/") and not odd):
        return path
    import os

    return os.path.abspath(path)


def resolve_links(path: str) -> str:
    """Return the absolute path of the file that a path leads to; directories in it may still be links."""
    try:
        if posix.lstat(path).st_mode & FILE_TYPE != SYMBOLIC_LINK:
            return absolute(path)
    except OSError:
        return absolute(path)
    import os

    return os.path.realpath(path)


def directory_of(path: str) -> str:
    """Return the directory of a path, "." for a name alone."""
    return path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")


def is_directory(path: str) -> bool:
    """Return whether a path leads to a directory, False also if that is unknown."""
    return _mode(path) & FILE_TYPE == DIRECTORY


def exists(path: str) -> bool:
    """Return whether a path leads to anything, False also if that is unknown."""
    return bool(_mode(path))


def is_file(path: str) -> bool:
    """Return whether a path leads to a regular file, False also if that is unknown."""
    return _mode(path) & FILE_TYPE == REGULAR_FILE


def is_link(path: str) -> bool:
    """Return whether a path is a symbolic link, wherever it leads; False also if that is unknown."""
    try:
        return posix.lstat(path).st_mode & FILE_TYPE == SYMBOLIC_LINK
    except (OSError, ValueError):  # ValueError: a null byte
        return False


def writable_by_others(path: str) -> str:
    """Return the part of an absolute path, or of its target, that users except root and this one may replace; or ""."""
    parts = [path]
    while parts[-1] != "/":
        parts.append(directory_of(parts[-1]))
    found = next(filter(_is_writable_by_others, parts), "")
    if found or not any(map(is_link, parts)):
        return found
    import os

    return writable_by_others(os.path.realpath(path))


def _is_writable_by_others(path: str) -> bool:
    status = posix.stat(path)
    others = status.st_mode & (WRITABLE_BY_ALL if status.st_gid == 0 else WRITABLE_BY_ALL | WRITABLE_BY_GROUP)
    # In a directory like /tmp only owners may rename and remove, and the part below belongs to root or this user.
    is_guarded = status.st_mode & STICKY and status.st_mode & FILE_TYPE == DIRECTORY
    return status.st_uid not in (0, posix.geteuid()) or bool(others and not is_guarded)


def _mode(path: str) -> int:
    try:
        return posix.stat(path).st_mode
    except (OSError, ValueError):  # ValueError: a null byte
        return 0
