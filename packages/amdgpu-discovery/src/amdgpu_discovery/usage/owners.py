"""Finds the user of a process, by facts that this user cannot choose.

A program such as su, which a user has started and which asks for the password, has root as the owner of its /proc/PID
and as effective uid. Its real uid is still that of the user.
"""

from __future__ import annotations

import posix

from amdgpu_discovery.files import read_file

# The line `Uid:` is the ninth. The name above it has 16 characters, and the kernel may print each as four.
STATUS_BYTES = 1024
# One line for each hierarchy; a path has 4096 bytes at most, and each line begins with the same slice. More would take
# twice as long for every process, because Python allocates the buffer first.
CGROUP_BYTES = 8192
LARGEST_CGROUP = 65536
# systemd puts what a user starts below this slice, even if it becomes root later (sudo). Only root can move it out.
SLICES_OF_USERS = b"/user.slice/user-"
SLICE_UID_DIGITS = 10
# Engines name cgroups by the 64 hexadecimal digits of an id. LXC, systemd-nspawn and Slurm use words.
ID_OF_CONTAINER = b"0" * 64
DIGITS_AS_ZEROS = bytes.maketrans(b"0123456789abcdef", ID_OF_CONTAINER[:16])
CONTAINER_PREFIXES = (b"/lxc.payload.", b"/machine-")
JOB = b"/job_"
# From here on /etc/subuid gives 65,536 ids to each user, so that uids do not identify users.
FIRST_SUBORDINATE = 65536


def read_real_uid(proc: str, pid: int) -> int | None:
    """Return the real uid of a process, None if it is gone or unreadable."""
    return parse_real_uid(_read_start(f"{proc}/{pid}/status", STATUS_BYTES))


def read_cgroups(proc: str, pid: int) -> str:
    """Return the lines of a process's cgroups, "" if it is gone."""
    try:
        return read_file(f"{proc}/{pid}/cgroup", largest=LARGEST_CGROUP).decode("utf-8", "replace")
    except OSError:
        return ""


def read_share(proc: str, pid: int) -> tuple[int, bool]:
    """Return the user charged for reading a process, and whether it is in a container or job that no user could forge.

    The user is the one whose slice the process is in, else its real uid; all subordinate ids count as one user.
    """
    cgroup = _read_start(f"{proc}/{pid}/cgroup", CGROUP_BYTES)
    user = user_of_slice(cgroup)
    if user is not None:
        return user, False
    return min(read_real_uid(proc, pid) or 0, FIRST_SUBORDINATE), is_in_container(cgroup)


def user_of_slice(cgroup: bytes) -> int | None:
    """Return the user whose slice is in the lines of /proc/PID/cgroup, None if there is none."""
    for line in cgroup.split(b"\n"):
        path = line.split(b":", 2)[2] if line.count(b":") >= 2 else b""
        uid, end, _ = path.removeprefix(SLICES_OF_USERS).partition(b".slice")
        if path.startswith(SLICES_OF_USERS) and end and uid.isdigit() and len(uid) <= SLICE_UID_DIGITS:
            return int(uid)
    return None


def is_in_container(cgroup: bytes) -> bool:
    """Return whether the lines of /proc/PID/cgroup name a container or a Slurm job."""
    # Not with `re`, whose import takes a tenth of the time of the list of states.
    return (
        ID_OF_CONTAINER in cgroup.translate(DIGITS_AS_ZEROS)
        or any(word in cgroup for word in CONTAINER_PREFIXES)
        or any(name[:1].isdigit() for name in cgroup.split(JOB)[1:])
    )


def parse_real_uid(status: bytes) -> int | None:
    """Return the real uid at the beginning of /proc/PID/status; the kernel escapes line ends in names."""
    real = status.partition(b"\nUid:\t")[2].partition(b"\t")[0]
    return int(real) if real.isdigit() else None


def _read_start(path: str, size: int) -> bytes:
    """Return what one read returns, b"" if the process is gone."""
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
