"""The user who asks, also through sudo, and names of users for output: a container start knows numbers only."""

from __future__ import annotations

import os

from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.untrusted.plain_files import read_plain_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from amdgpu_discovery.host import Host

# The kernel reserves the highest number for "no user".
LARGEST_UID = (1 << 32) - 2
MOST_UID_DIGITS = len(str(LARGEST_UID))
# Not through pwd: a directory service that does not answer would block the caller.
USERS = "/etc/passwd"
LARGEST_USERS = 1024 * 1024


class NoSuchUser(ToolkitError):
    """The system does not know this user."""

    exit_code = 2


def parse_uid(text: str) -> int | None:
    """Parse a user id; return None for any other text."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= MOST_UID_DIGITS
    return int(text) if is_number and int(text) <= LARGEST_UID else None


def find_user(word: str) -> int | None:
    """Return the number of a user by name or number, also of a deleted user; None for "". Raises NoSuchUser."""
    number = parse_uid(word)
    if number is not None or not word:
        return number
    # Programs that give out GPUs know numbers only.
    import pwd

    try:
        return pwd.getpwnam(word).pw_uid
    except (KeyError, ValueError):
        raise NoSuchUser(f"there is no user {word[:64]!r}", hint="name a user, or write the number") from None


def behind_sudo(environment: Mapping[str, str]) -> int | None:
    """Return the user who became root by sudo, from sudo's variable; None for all others."""
    return parse_uid(environment.get("SUDO_UID", "")) if os.geteuid() == 0 else None


def person_behind(uid: int, *, login: int | None, sudo: int | None) -> int | None:
    """Return the person of a process of `uid`: for root, the user who logged in, else who called sudo; None if unknown.

    The kernel keeps the login, while root can set any SUDO_UID. A login as root does not identify a person.
    """
    return uid or login or sudo


def name_of_person(uid: int) -> str:
    """Return a user's name from the system's name service, the number if there is none."""
    # Few tables show people.
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return str(uid)


def title_of_person(uid: int) -> str:
    """Return the name of a user for a sentence, `user 1001` for a user without a name."""
    name = name_of_person(uid)
    return f"user {name}" if name == str(uid) else name


def read_user_names(host: Host) -> dict[int, str]:
    """Return the names in a host's own file of users, by user id."""
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
