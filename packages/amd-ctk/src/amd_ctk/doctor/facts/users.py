"""The user whose rootless containers are in question."""

from __future__ import annotations

import os
import pwd

from amdgpu_discovery.people import behind_sudo
from amdgpu_discovery.value import Value


class User(Value):
    """A user of this host, with all groups; `runtime_directory` is where programs keep sockets and the like."""

    name: str
    uid: int
    groups: tuple[int, ...]
    home: str
    runtime_directory: str


def find_user() -> User | None:
    """Return who called this program, behind sudo too; None for root."""
    told = behind_sudo(os.environ)
    uid = os.geteuid() if told is None else told
    try:
        entry = pwd.getpwuid(uid)
    except (KeyError, OverflowError):
        return None
    if uid == 0:
        return None
    own = os.environ.get("XDG_RUNTIME_DIR", "") if uid == os.geteuid() else ""
    groups = tuple(sorted(os.getgrouplist(entry.pw_name, entry.pw_gid)))
    return User(
        name=entry.pw_name, uid=uid, groups=groups, home=entry.pw_dir, runtime_directory=own or f"/run/user/{uid}"
    )
