"""Reads files that another user may have written: only plain files, and only up to a limit."""

from __future__ import annotations

import posix

from amdgpu_discovery.files import DIRECTORY, FILE_TYPE, REGULAR_FILE, SYMBOLIC_LINK, read_to_end

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os

# Many times the size of any file of this toolkit.
LARGEST_PLAIN_FILE = 1024 * 1024
# Position, flags, mount and inode of a descriptor.
LONGEST_INFO = 4096


def read_plain_file(
    path: str,
    *,
    largest: int = LARGEST_PLAIN_FILE,
    directory: int | None = None,
    owner: int | None = None,
    mount: int | None = None,
) -> tuple[bytes, float]:
    """Return the content of a file and when it was written; OSError if it is too large or not a plain file.

    For files that an untrusted user may have made: a pipe would block the reader, opening a device may have an effect,
    and some files never end. With `owner`, only that user's own files are read, and no symbolic link is followed. With
    `mount`, only files on that mount are read (see `require_mount`).
    """
    found_path = posix.O_PATH | posix.O_CLOEXEC | (0 if owner is None else posix.O_NOFOLLOW)
    handle = posix.open(path, found_path, dir_fd=directory)
    try:
        if mount is not None:
            require_mount(handle, mount)
        found = posix.fstat(handle)
        _require_plain(found, largest, owner)
        descriptor = posix.open(f"/proc/self/fd/{handle}", posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NONBLOCK)
    finally:
        posix.close(handle)
    try:
        # The file may have grown meanwhile.
        return read_to_end(descriptor, largest), found.st_mtime
    finally:
        posix.close(descriptor)


def require_mount(descriptor: int, mount: int) -> None:
    """Raise OSError unless a descriptor, which may be of O_PATH, is on this mount, as `mount_of` returns it.

    A user can mount a FUSE file system on a directory or a file. It may never answer, not even to stat(2).
    """
    if mount_of(descriptor) != mount:
        import errno

        raise OSError(errno.EXDEV, "another file system is mounted there")


def mount_of(descriptor: int) -> int:
    """Return the id of a descriptor's mount, which the kernel knows without asking the file system (proc(5)).

    A kernel that does not tell it, such as gVisor's, has one mount, 0.
    """
    with_descriptor = posix.open(f"/proc/self/fdinfo/{descriptor}", posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        return int((posix.read(with_descriptor, LONGEST_INFO).partition(b"mnt_id:")[2].split(None, 1) or (b"0",))[0])
    finally:
        posix.close(with_descriptor)


def read_own_file(path: str, *, largest: int = LARGEST_PLAIN_FILE) -> bytes:
    """Return the content of a file in a directory that only the caller and root may change; errors as above.

    The file is opened before its type is known, which takes half as long. A pipe does not block the reader, and no
    other user can have put a device there.
    """
    flags = posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NONBLOCK | posix.O_NOCTTY
    descriptor = posix.open(path, flags)
    try:
        found = posix.fstat(descriptor)
        _require_plain(found, largest, None)
        content = posix.read(descriptor, found.st_size + 1)
        # The file may have grown meanwhile.
        return content if len(content) == found.st_size else content + read_to_end(descriptor, largest - len(content))
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
        # Numbers for which `reason` has words.
        raise OSError(errno.EISDIR if file_type == DIRECTORY else errno.ELOOP, "it is not a plain file")
    raise OSError(errno.EINVAL, "it is not a plain file" if file_type != REGULAR_FILE else "it belongs to another user")
