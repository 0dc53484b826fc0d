"""The user whose rootless containers doctor looks at, and what is left of deleted users and groups."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from shlex import quote

from amd_ctk.companions import SHARING, is_installed
from amd_ctk.explain.container import settings_of
from amd_gpu_tracker import Tracker
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.files import read_file
from amdgpu_discovery.host import Host
from amdgpu_discovery.people import behind_sudo
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
        fields = _read_status(f"{proc}/{pid}/status")
        if fields.get("Uid", "").split()[:1] == [str(uid)]:
            own, *_ = fields.get("Gid", "").split() or ["0"]
            return tuple(int(word) for word in (own, *fields.get("Groups", "").split()) if word.isdecimal())
        parent = fields.get("PPid", "")
        if not parent.isdecimal() or parent == "0":
            return None
        pid = int(parent)
    return None


def _read_status(path: str) -> dict[str, str]:
    try:
        lines = read_file(path).decode("utf-8", "replace").splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def find_departed(host: Host) -> tuple[str, ...]:
    """Return the arguments of `amd-ctk` that remove each rule, job and reservation of a deleted user or group."""
    if not is_installed(SHARING):
        return ()
    with suppress(ToolkitError, OSError):
        return (*_find_rules(host), *_find_jobs(host))
    # Other checks report why nothing is known.
    return ()


def _find_rules(host: Host) -> Iterator[str]:
    from amd_gpu_sharing import read_permissions

    for rule in read_permissions(host):
        if not _is_known(grp.getgrgid if rule.is_of_group else pwd.getpwuid, rule.number):
            yield f"users deny {'@' if rule.is_of_group else ''}{rule.number}"


def _find_jobs(host: Host) -> Iterator[str]:
    from amd_gpu_sharing import SharedJobs

    tracker = Tracker(host)
    for ticket in tracker.waiting():
        if not _is_known(pwd.getpwuid, ticket.owner):
            yield f"queue cancel {quote(ticket.name)} --user={ticket.owner}"
    for name, owner in SharedJobs(tracker).owners():
        if not _is_known(pwd.getpwuid, owner):
            yield f"queue end {quote(name)} --user={owner}"


def _is_known(find: Callable[[int], object], number: int | None) -> bool:
    try:
        return number is None or bool(find(number))
    except (KeyError, OverflowError):
        return False
