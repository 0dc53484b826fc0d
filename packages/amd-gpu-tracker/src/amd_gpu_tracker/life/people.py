"""Names of people, for those who read them: what gives out GPUs, and a container start, know numbers only."""

from __future__ import annotations


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
