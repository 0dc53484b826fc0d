"""Tell whose a process is, by what that user cannot choose.

The owner of /proc/PID and the effective uid are those of root for a program such as su that a user has started and that
asks for the password. The real uid is still that of the user.
"""

from __future__ import annotations

import posix

# The line `Uid:` is the ninth, and the name above has 16 characters, each of which the kernel may print as four.
ENOUGH_OF_STATUS = 1024
# One line for each hierarchy; a path has 4096 bytes at most, and each line begins with the same slice. More would take
# twice as long for every process, because Python allocates it first.
ENOUGH_OF_CGROUP = 8192
# systemd puts what a user starts below this slice, also what then becomes root (sudo), and only root can move it out.
SLICES_OF_USERS = b"/user.slice/user-"
LONGEST_UID = 10
# As engines name cgroups: by the 64 hexadecimal digits of an id. LXC, systemd-nspawn and Slurm use words.
ID_OF_CONTAINER = b"0" * 64
DIGITS_AS_ZEROS = bytes.maketrans(b"0123456789abcdef", ID_OF_CONTAINER[:16])
WORDS_OF_CONTAINERS = (b"/lxc.payload.", b"/machine-")
JOB = b"/job_"
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
    user = user_of_slice(cgroup)
    if user is not None:
        return user, False
    return min(read_real_uid(proc, pid) or 0, FIRST_SUBORDINATE), is_in_container(cgroup)


def user_of_slice(cgroup: bytes) -> int | None:
    """Return the user below whose slice the lines of /proc/PID/cgroup are, None where they are below none."""
    for line in cgroup.split(b"\n"):
        path = line.split(b":", 2)[2] if line.count(b":") >= 2 else b""
        uid, end, _ = path.removeprefix(SLICES_OF_USERS).partition(b".slice")
        if path.startswith(SLICES_OF_USERS) and end and uid.isdigit() and len(uid) <= LONGEST_UID:
            return int(uid)
    return None


def is_in_container(cgroup: bytes) -> bool:
    """Return whether the lines of /proc/PID/cgroup name a container or a job of Slurm."""
    # Not with `re`, which takes a tenth of the list of states to import.
    return (
        ID_OF_CONTAINER in cgroup.translate(DIGITS_AS_ZEROS)
        or any(word in cgroup for word in WORDS_OF_CONTAINERS)
        or any(name[:1].isdigit() for name in cgroup.split(JOB)[1:])
    )


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
