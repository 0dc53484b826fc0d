"""Who asks, also by sudo, and names of people for those who read them: a container start knows numbers only."""

from __future__ import annotations

import os

from amd_gpu_tracker.records.ignored_users import LARGEST_UID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST_UID = len(str(LARGEST_UID))


def behind_sudo(environment: Mapping[str, str]) -> int | None:
    """Return the user who became root by sudo, as sudo says; None for all others."""
    told = environment.get("SUDO_UID", "")
    is_number = told.isascii() and told.isdecimal() and len(told) <= LONGEST_UID
    return int(told) if is_number and int(told) <= LARGEST_UID and os.geteuid() == 0 else None


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
