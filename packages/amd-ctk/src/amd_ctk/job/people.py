"""Names of people, for those who read and write them; what gives out GPUs knows numbers only."""

from __future__ import annotations

import pwd

from amdgpu_discovery.errors import ToolkitError


class NoSuchUser(ToolkitError):
    """A user whom the system does not know."""

    exit_code = 2


def find_owner(user: str) -> int | None:
    """Return the number of a user by name or number, None for ""; NoSuchUser."""
    if not user:
        return None
    if user.isascii() and user.isdecimal() and len(user) <= 10:
        return int(user)
    try:
        return pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):
        raise NoSuchUser(f"there is no user {user[:64]!r}", hint="name a user, or write the number") from None
