"""The ids of jobs and reservations in leases: owner and name."""

from __future__ import annotations

import os

# A lease that holds the GPUs of a job while it ends has the job's id with this suffix.
ENDING = ".ending"


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
