"""Who asks, also by sudo, and names of people for those who read them: a container start knows numbers only."""

from __future__ import annotations

import os

from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.plain_files import read_plain_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from amdgpu_discovery.host import Host

# The kernel keeps the highest number for "no user".
LARGEST_UID = (1 << 32) - 2
LONGEST_UID = len(str(LARGEST_UID))
# Not through pwd: a directory service that does not answer would stop the look.
USERS = "/etc/passwd"
LARGEST_USERS = 1024 * 1024


class NoSuchUser(ToolkitError):
    """A user whom the system does not know."""

    exit_code = 2


def parse_uid(text: str) -> int | None:
    """Return the number of a user, None for any other text."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= LONGEST_UID
    return int(text) if is_number and int(text) <= LARGEST_UID else None


def find_user(word: str) -> int | None:
    """Return the number of a user by name or number, also of one that was deleted; None for "". NoSuchUser."""
    number = parse_uid(word)
    if number is not None or not word:
        return number
    # What gives out GPUs knows numbers only.
    import pwd

    try:
        return pwd.getpwnam(word).pw_uid
    except (KeyError, ValueError):
        raise NoSuchUser(f"there is no user {word[:64]!r}", hint="name a user, or write the number") from None


def behind_sudo(environment: Mapping[str, str]) -> int | None:
    """Return the user who became root by sudo, as sudo says; None for all others."""
    return parse_uid(environment.get("SUDO_UID", "")) if os.geteuid() == 0 else None


def person_behind(uid: int, *, login: int | None, sudo: int | None) -> int | None:
    """Return the person of a process of user `uid`: for root, who logged in, or else who called sudo; None if unknown.

    The kernel keeps the login, while root can set any SUDO_UID. A login as root names no person.
    """
    return uid or login or sudo


def name_of_person(uid: int) -> str:
    """Return the name of a user by the system's name service, the number where it has none."""
    # Few tables have people.
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return str(uid)


def title_of_person(uid: int) -> str:
    """Return what a sentence calls a user: the name, or `user 1001` for one that has none."""
    name = name_of_person(uid)
    return f"user {name}" if name == str(uid) else name


def read_user_names(host: Host) -> dict[int, str]:
    """Return the names of the users that a host has itself."""
    try:
        content = read_plain_file(host.path(USERS), largest=LARGEST_USERS)[0]
    except OSError:
        return {}
    names: dict[int, str] = {}
    for line in content.decode("utf-8", "replace").splitlines():
        name, _, text = (*line.split(":"), "", "", "")[:3]
        uid = parse_uid(text)
        if uid is not None:
            names.setdefault(uid, name)
    return names
