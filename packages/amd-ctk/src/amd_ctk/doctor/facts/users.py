"""The user whose rootless containers doctor looks at."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping

from amd_ctk.doctor.inside.process import parse_status
from amd_ctk.engines.engine_address import settings_of
from amdgpu_discovery.files import read_file
from amdgpu_discovery.usage.people import behind_sudo
from amdgpu_discovery.value import Value

# Between sudo and a shell.
MOST_PARENTS = 16


class User(Value):
    """A user of this host, with all groups; programs keep sockets and the like in `runtime_directory`.

    `session_groups` are those of the session, which are older than the user's groups; None if they are not known.
    """

    name: str
    uid: int
    groups: tuple[int, ...]
    home: str
    runtime_directory: str
    # XDG_CONFIG_HOME and XDG_DATA_HOME, "" if they are not set or not known.
    chosen_settings: str = ""
    chosen_data: str = ""
    session_groups: tuple[int, ...] | None = None

    def has_group(self, gid: int) -> bool:
        """Return whether programs of the session are in a group."""
        return gid in (self.groups if self.session_groups is None else self.session_groups)

    @property
    def settings(self) -> str:
        """Return the directory of this user's settings."""
        return settings_of({"HOME": self.home, "XDG_CONFIG_HOME": self.chosen_settings})

    @property
    def data(self) -> str:
        """Return the directory of this user's data."""
        return self.chosen_data or f"{self.home}/.local/share"


def find_user() -> User | None:
    """Return the user who called this program, also through sudo; None for root and for an unknown user."""
    sudo_uid = behind_sudo(os.environ)
    uid = os.geteuid() if sudo_uid is None else sudo_uid
    try:
        entry = pwd.getpwuid(uid)
    except (KeyError, OverflowError):
        return None
    if uid == 0:
        return None
    # sudo does not pass on a user's variables.
    own: Mapping[str, str] = os.environ if uid == os.geteuid() else {}
    return User(
        name=entry.pw_name,
        uid=uid,
        groups=tuple(sorted(os.getgrouplist(entry.pw_name, entry.pw_gid))),
        home=own.get("HOME") or entry.pw_dir,
        runtime_directory=own.get("XDG_RUNTIME_DIR") or f"/run/user/{uid}",
        chosen_settings=own.get("XDG_CONFIG_HOME", ""),
        chosen_data=own.get("XDG_DATA_HOME", ""),
        session_groups=(os.getegid(), *os.getgroups()) if own else find_session_groups(uid, os.getppid()),
    )


def find_session_groups(uid: int, pid: int, proc: str = "/proc") -> tuple[int, ...] | None:
    """Return the groups of the nearest process above `pid`, itself included, that is a user's; None if none is."""
    for _ in range(MOST_PARENTS):
        try:
            fields = parse_status(read_file(f"{proc}/{pid}/status").decode("utf-8", "replace"))
        except OSError:
            return None
        if fields["Uid"].split()[0] == str(uid):
            return tuple(map(int, (fields["Gid"].split()[0], *fields["Groups"].split())))
        pid = int(fields["PPid"])
    return None
