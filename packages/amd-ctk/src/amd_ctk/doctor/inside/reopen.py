"""Open a file after a look at what it is: opening a device may already act, as it does with a watchdog.

A path may lead elsewhere between the two, so what was looked at is opened again by its descriptor.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


def open_own_files() -> int:
    """Return the directory by which this process, also with another root directory, opens its descriptors again."""
    return os.open("/proc/self/fd", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


@contextmanager
def held(path: str) -> Iterator[int]:
    """Give a descriptor of what an absolute path leads to, which is not opened; OSError.

    Links are followed by their text alone: one in /proc could lead by a descriptor out of the root directory.
    """
    handle = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        for name in os.path.realpath(path).split("/")[1:]:
            above, handle = handle, os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=handle)
            os.close(above)
        yield handle
    finally:
        os.close(handle)


def reopen(handle: int, flags: int, own_files: int) -> int:
    """Open what `held` gave, and return the new descriptor; OSError."""
    return os.open(str(handle), flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=own_files)
