"""Read files, append to them, and replace them atomically."""

from __future__ import annotations

import posix

from amdgpu_discovery.errors import FileError, reason
from amdgpu_discovery.paths import (
    DIRECTORY,
    FILE_TYPE,
    REGULAR_FILE,
    SYMBOLIC_LINK,
    behind_links,
    directory_of,
    exists,
    is_directory,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os

READ_AT_ONCE = 65536
DIRECTORY_MODE = 0o755
# Many times what a file of this toolkit comes to.
LARGEST_PLAIN_FILE = 1024 * 1024


def read_file(path: str, *, flags: int = 0) -> bytes:
    """Return the content of a file; OSError as from the kernel. `flags` are further ones of open(2)."""
    descriptor = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC | flags)
    try:
        content = posix.read(descriptor, READ_AT_ONCE)
        # Files end where less comes than was asked for; most of sysfs and /proc is smaller than one page.
        return content if len(content) < READ_AT_ONCE else content + _read_rest(descriptor)
    finally:
        posix.close(descriptor)


def _read_rest(descriptor: int) -> bytes:
    chunks = [posix.read(descriptor, READ_AT_ONCE)]
    while len(chunks[-1]) == READ_AT_ONCE:
        chunks.append(posix.read(descriptor, READ_AT_ONCE))
    return b"".join(chunks)


def read_plain_file(
    path: str, *, largest: int = LARGEST_PLAIN_FILE, directory: int | None = None, owner: int | None = None
) -> tuple[bytes, float]:
    """Return the content of a file and when it was written; OSError where it is large or no plain file.

    For files that an untrusted user may have made: a pipe would block the reader, opening a device may have an effect,
    and some files never end. Of an `owner` only that user's own files are read, and no symbolic link is followed.
    """
    found_path = posix.O_PATH | posix.O_CLOEXEC | (0 if owner is None else posix.O_NOFOLLOW)
    handle = posix.open(path, found_path, dir_fd=directory)
    try:
        found = posix.fstat(handle)
        _require_plain(found, largest, owner)
        descriptor = posix.open(f"/proc/self/fd/{handle}", posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NONBLOCK)
    finally:
        posix.close(handle)
    try:
        return _read_all(descriptor, largest), found.st_mtime
    finally:
        posix.close(descriptor)


def _require_plain(found: os.stat_result, largest: int, owner: int | None) -> None:
    file_type = found.st_mode & FILE_TYPE
    is_plain = file_type == REGULAR_FILE and owner in (None, found.st_uid)
    if is_plain and found.st_size <= largest:
        return
    import errno

    if is_plain:
        raise OSError(errno.EFBIG, "it is too large")
    if file_type in (DIRECTORY, SYMBOLIC_LINK):
        # What `reason` has words for.
        raise OSError(errno.EISDIR if file_type == DIRECTORY else errno.ELOOP, "it is not a plain file")
    raise OSError(errno.EINVAL, "it is not a plain file" if file_type != REGULAR_FILE else "it belongs to another user")


def _read_all(descriptor: int, largest: int) -> bytes:
    """Return what is left to read; OSError where a file grew beyond its limit meanwhile."""
    content = b""
    while chunk := posix.read(descriptor, min(READ_AT_ONCE, largest + 1 - len(content))):
        content += chunk
        if len(content) > largest:
            import errno

            raise OSError(errno.EFBIG, "it is too large")
    return content


def append_to_file(path: str, content: bytes, *, flags: int = 0) -> None:
    """Append to a file in one write; a new one is for all to read. OSError. `flags` are further ones of open(2)."""
    flags |= posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_CLOEXEC
    descriptor = posix.open(path, flags, 0o644)
    try:
        posix.write(descriptor, content)
    finally:
        posix.close(descriptor)


def replace_file(path: str, content: bytes, *, mode: int | None = None, durable: bool = False) -> None:
    """Replace the file at `path` by `content`; readers see either the old file or the new one.

    An existing file keeps its mode and owner, a new one gets `mode` (0644 if not given). A symbolic link is followed,
    so that the link stays and its target changes. `durable` also waits for the disk. FileError where that fails; the
    old file is then untouched and nothing is left beside it.
    """
    try:
        target = behind_links(path)
        temporary = write_beside(target, content, mode=mode, durable=durable)
        put_in_place(temporary, target, durable=durable)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {reason(error)}") from error


def write_beside(path: str, content: bytes, *, mode: int | None = None, durable: bool = False) -> str:
    """Write `content` to a new file beside `path` with the mode and owner of `path`; return its name; OSError.

    The caller either calls `put_in_place` or unlinks it.
    """
    old = _stat_or_none(path)
    temporary = f"{path}.{posix.getpid()}.tmp"
    flags = posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC | posix.O_NOFOLLOW
    try:
        descriptor = posix.open(temporary, flags, 0o600)
    except FileExistsError:
        # Left by a killed process that had this process's number; no other process uses this name.
        posix.unlink(temporary)
        descriptor = posix.open(temporary, flags, 0o600)
    try:
        try:
            _write_all(descriptor, content)
            _dress(descriptor, old, mode)
            if durable:
                posix.fsync(descriptor)
        finally:
            posix.close(descriptor)
    except BaseException:
        posix.unlink(temporary)
        raise
    return temporary


def put_in_place(temporary: str, path: str, *, durable: bool = False) -> None:
    """Rename what `write_beside` wrote; OSError, after which the temporary file is gone."""
    try:
        posix.replace(temporary, path)
    except BaseException:
        posix.unlink(temporary)
        raise
    if durable:
        _sync_directory(directory_of(path))


def make_directories(path: str, *, ignore_umask: bool = False) -> None:
    """Make a directory and those above it that are missing; OSError names the one that cannot be made.

    Only their owner may write. With `ignore_umask` everybody may read, else those whom the umask allows.
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


def _dress(descriptor: int, old: os.stat_result | None, mode: int | None) -> None:
    if old is None:
        posix.fchmod(descriptor, 0o644 if mode is None else mode)
        return
    if (old.st_uid, old.st_gid) != (posix.geteuid(), posix.getegid()):
        posix.fchown(descriptor, old.st_uid, old.st_gid)
    posix.fchmod(descriptor, old.st_mode & 0o7777)


def _sync_directory(directory: str) -> None:
    descriptor = posix.open(directory, posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC)
    try:
        posix.fsync(descriptor)
    finally:
        posix.close(descriptor)
