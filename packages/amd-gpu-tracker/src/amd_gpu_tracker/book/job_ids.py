"""The ids of jobs and reservations in leases: owner and name; which names jobs can have."""

from __future__ import annotations

import os

from amd_gpu_tracker.errors import WaitRefused

# The characters of Docker's container names; a name is a part of a file's name.
NAME_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
LONGEST_JOB_NAME = 64


def owner_of(job: str) -> int:
    """Return the uid of a job's owner. Ids of users' jobs begin with their uid."""
    owner, is_users, _ = job.partition("/")
    return int(owner) if is_users and owner.isdecimal() else 0


def job_id(owner: int, name: str) -> str:
    """Return the id of a user's job or reservation. Each user has their own names; those of root have no prefix.

    The names of the user of this process have none either, because that user has their own state.
    """
    return name if owner in (0, os.geteuid()) else f"{owner}/{name}"


def name_of(job: str) -> str:
    """Return the name of a job without its owner."""
    return job.rpartition("/")[2]


def require_name(name: str) -> None:
    """Raise WaitRefused if a job cannot have this name."""
    if not (0 < len(name) <= LONGEST_JOB_NAME and NAME_LETTERS.issuperset(name) and name[0] not in "-."):
        letters = "letters, digits, '_', '.' and '-', and begin with a letter, a digit or '_'"
        raise WaitRefused(
            f"{name[:LONGEST_JOB_NAME]!r} is not a name for a job", hint=f"use up to {LONGEST_JOB_NAME} {letters}"
        )
