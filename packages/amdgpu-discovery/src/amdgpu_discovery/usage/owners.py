"""Tell whose a process is, by what that user cannot choose.

The owner of /proc/PID and the effective uid are those of root for a program such as su that a user has started and that
asks for the password. The real uid is still that of the user.
"""

from __future__ import annotations

import posix
import re

# The line `Uid:` is the ninth, and the name above has 16 characters, each of which the kernel may print as four.
ENOUGH_OF_STATUS = 1024
# One line for each hierarchy; a path has 4096 bytes at most, and each line begins with the same slice. More would take
# twice as long for every process, because Python allocates it first.
ENOUGH_OF_CGROUP = 8192
# systemd puts what a user starts below this slice, also what then becomes root (sudo), and only root can move it out.
SLICE_OF_USER = re.compile(rb"^[0-9]+:[^:\n]*:/user\.slice/user-([0-9]{1,10})\.slice", re.MULTILINE)
# As engines, LXC, systemd-nspawn and Slurm name cgroups.
CONTAINER = re.compile(rb"[0-9a-f]{64}|/lxc\.payload\.|/machine-|/job_[0-9]")
# From here on /etc/subuid gives ids to users, 65,536 to each, so that uids do not tell users apart.
FIRST_SUBORDINATE = 65536


def read_real_uid(proc: str, pid: int) -> int | None:
    """Return the real uid of a process, None where it is gone or nothing tells."""
    return parse_real_uid(_begin_of(f"{proc}/{pid}/status", ENOUGH_OF_STATUS))


def read_share(proc: str, pid: int) -> tuple[int, bool]:
    """Return who is charged for a look at a process, and whether it is in a container or a job that no user has named.

    That is the user below whose slice it is, else the real uid; all subordinate ids of other processes are one.
    """
    cgroup = _begin_of(f"{proc}/{pid}/cgroup", ENOUGH_OF_CGROUP)
    slice_of_user = SLICE_OF_USER.search(cgroup)
    if slice_of_user:
        return int(slice_of_user[1]), False
    return min(read_real_uid(proc, pid) or 0, FIRST_SUBORDINATE), CONTAINER.search(cgroup) is not None


def parse_real_uid(status: bytes) -> int | None:
    """Return the real uid that the beginning of /proc/PID/status tells; the kernel escapes line ends in names."""
    real = status.partition(b"\nUid:\t")[2].partition(b"\t")[0]
    return int(real) if real.isdigit() else None


def _begin_of(path: str, size: int) -> bytes:
    """Return what one read gives, b"" where the process is gone."""
    try:
        descriptor = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return posix.read(descriptor, size)
    except OSError:
        return b""
    finally:
        posix.close(descriptor)
