"""Where this process keeps its leases: root in /run, users in their own runtime directories.

The rule does not depend on the environment. `/` belongs to the root user of a machine, or to that of a system container
(LXC), whose uid map is no more an identity than that of a rootless engine. A rootless engine maps ids too, but its `/`
belongs to somebody else.
"""

from __future__ import annotations

import posix

from amdgpu_discovery.files import is_directory, read_file
from amdgpu_discovery.host import IDENTITY_UID_MAP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# Made by logind for each user who is logged in, with mode 0700.
USER_DIRECTORIES = "/run/user"
DIRECTORY_NAME = "amd-container-toolkit"


def find_user_directory(environment: Mapping[str, str]) -> str:
    """Return the directory for a user's leases, "" for root."""
    uid = find_user()
    if uid is None:
        return ""
    # Root's place first, because hooks often run with an empty environment.
    candidates = (f"{USER_DIRECTORIES}/{uid}", environment.get("XDG_RUNTIME_DIR", ""))
    found = next((path for path in candidates if path and _is_own_directory(path)), "")
    return f"{found}/{DIRECTORY_NAME}" if found else ""


def find_user() -> int | None:
    """Return the user for whom this process runs containers, None for root."""
    uid = posix.geteuid()
    uid_map = _read_uid_map()
    if uid_map.split() == IDENTITY_UID_MAP.split() or _owner_of_root_directory() == 0:
        return uid or None
    return outer_uid(uid_map, uid)


def outer_uid(uid_map: str, uid: int) -> int | None:
    """Return the uid outside of a user namespace for a uid inside, None if it is not mapped."""
    for inside, outside, length in (line.split() for line in uid_map.splitlines()):
        if int(inside) <= uid < int(inside) + int(length):
            return int(outside) + uid - int(inside)
    return None


def _read_uid_map() -> str:
    try:
        return read_file("/proc/self/uid_map").decode("ascii")
    except OSError:  # A kernel without user namespaces.
        return IDENTITY_UID_MAP


def _owner_of_root_directory() -> int:
    return posix.stat("/").st_uid


def _is_own_directory(path: str) -> bool:
    """Return whether a path leads to a directory of this user; in /tmp, others may have made it."""
    return is_directory(path) and posix.stat(path).st_uid == posix.geteuid()
