"""What jobs and reservations are called in leases: by their owner and the name that this user gave them."""

from __future__ import annotations

import os

# What holds the GPUs of a job while that is ended is called like the job, with this behind.
ENDING = ".ending"


def owner_of(job: str) -> int:
    """Return whose job has this id: those of users begin with their number."""
    owner, is_users, _ = job.partition("/")
    return int(owner) if is_users and owner.isdecimal() else 0


def job_id(owner: int, name: str) -> str:
    """Return the id of a user's job or reservation: names belong to a user, and those of root are plain.

    So are those of the user whose own process this is, who has a state of their own.
    """
    return name if owner in (0, os.geteuid()) else f"{owner}/{name}"


def name_of(job: str) -> str:
    """Return the name of a job without its owner."""
    return job.rpartition("/")[2]
