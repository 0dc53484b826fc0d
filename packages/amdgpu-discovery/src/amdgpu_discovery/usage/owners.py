"""Tell whose a process is, by what that user cannot choose.

The owner of /proc/PID and the effective uid are those of root for a program such as su that a user has started and that
asks for the password. The real uid is still that of the user.
"""

from __future__ import annotations

import posix

# The line `Uid:` is the ninth, and the name above has 16 characters, each of which the kernel may print as four.
ENOUGH_OF_STATUS = 1024


def read_real_uid(proc: str, pid: int) -> int | None:
    """Return the real uid of a process, None where it is gone or nothing tells."""
    try:
        descriptor = posix.open(f"{proc}/{pid}/status", posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return None
    try:
        return parse_real_uid(posix.read(descriptor, ENOUGH_OF_STATUS))
    except OSError:
        return None
    finally:
        posix.close(descriptor)


def parse_real_uid(status: bytes) -> int | None:
    """Return the real uid that the beginning of /proc/PID/status tells; the kernel escapes line ends in names."""
    real = status.partition(b"\nUid:\t")[2].partition(b"\t")[0]
    return int(real) if real.isdigit() else None
