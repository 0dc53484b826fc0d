"""Tell which user has a process that is in no container, and what that user is called."""

from __future__ import annotations

from amd_gpu_tracker.usage.containers import read_service_user
from amdgpu_discovery.plain_files import read_plain_file
from amdgpu_discovery.usage.owners import read_real_uid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amdgpu_discovery.host import Host

# Not through pwd: a directory service that does not answer would stop the look.
USERS = "/etc/passwd"
LARGEST_USERS = 1024 * 1024


def find_process_user(proc: str, pid: int) -> int | None:
    """Return the user below whose service a process is, else its real uid; None where nothing tells."""
    user = read_service_user(proc, pid)
    return read_real_uid(proc, pid) if user is None else user


def read_user_names(host: Host) -> dict[int, str]:
    """Return the names of the users that a host has itself."""
    try:
        content = read_plain_file(host.path(USERS), largest=LARGEST_USERS)[0]
    except OSError:
        return {}
    names: dict[int, str] = {}
    for line in content.decode("utf-8", "replace").splitlines():
        name, _, uid = (*line.split(":"), "", "", "")[:3]
        if uid.isascii() and uid.isdecimal() and len(uid) <= len(str(1 << 32)):
            names.setdefault(int(uid), name)
    return names
