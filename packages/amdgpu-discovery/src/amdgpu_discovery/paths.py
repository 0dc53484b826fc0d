"""What a container start needs of `os.path`.

Importing `os` takes a millisecond, a tenth of the whole start; `posix`, the C half below it, is there already. So
modules that every start loads use `posix` and these, which leave unusual paths to `os.path`.
"""

from __future__ import annotations

import posix

# inode(7); the module `stat` says the same and has to be imported.
FILE_TYPE = 0o170000
DIRECTORY = 0o040000
REGULAR_FILE = 0o100000
SYMBOLIC_LINK = 0o120000
CHARACTER_DEVICE = 0o020000
PERMISSIONS = 0o007777
STICKY = 0o001000
WRITABLE_BY_GROUP = 0o000020
WRITABLE_BY_ALL = 0o000002


def absolute(path: str) -> str:
    """Return what os.path.abspath returns."""
    odd = "//" in path or "/./" in path or "/../" in path or path.endswith(("/", "/.", "/.."))
    if path == "/" or (path.startswith("/") and not odd):
        return path
    import os

    return os.path.abspath(path)


def behind_links(path: str) -> str:
    """Return the absolute path of the file that a path leads to; directories on the way may still be links."""
    try:
        if posix.lstat(path).st_mode & FILE_TYPE != SYMBOLIC_LINK:
            return absolute(path)
    except OSError:
        return absolute(path)
    import os

    return os.path.realpath(path)


def directory_of(path: str) -> str:
    """Return the directory a path is in, "." for a name alone."""
    return path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")


def is_directory(path: str) -> bool:
    """Return whether a path leads to a directory, False also where nobody can tell."""
    return _mode(path) & FILE_TYPE == DIRECTORY


def exists(path: str) -> bool:
    """Return whether a path leads to anything, False also where nobody can tell."""
    return bool(_mode(path))


def is_file(path: str) -> bool:
    """Return whether a path leads to a regular file, False also where nobody can tell."""
    return _mode(path) & FILE_TYPE == REGULAR_FILE


def writable_by_others(path: str) -> str:
    """Return the part of an absolute path that users other than root and this user may replace, "" for none."""
    status = posix.stat(path)
    others = status.st_mode & (WRITABLE_BY_ALL if status.st_gid == 0 else WRITABLE_BY_ALL | WRITABLE_BY_GROUP)
    # In a directory like /tmp only owners may rename and remove, and what is below belongs to root or this user.
    is_guarded = status.st_mode & STICKY and status.st_mode & FILE_TYPE == DIRECTORY
    if status.st_uid not in (0, posix.geteuid()) or (others and not is_guarded):
        return path
    return "" if path == "/" else writable_by_others(directory_of(path))


def _mode(path: str) -> int:
    try:
        return posix.stat(path).st_mode
    except (OSError, ValueError):  # ValueError: a null byte
        return 0
