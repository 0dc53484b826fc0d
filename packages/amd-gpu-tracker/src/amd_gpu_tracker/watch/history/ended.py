"""The reservations that a restart of the machine ended, for as long as they would have lasted.

The history has them after a restart, but only root and some users may read it. So they are also noted in `/run`.
"""

from __future__ import annotations

import time

from amd_gpu_tracker.book.lease import NEVER
from amdgpu_discovery.errors import FileError
from amdgpu_discovery.files import replace_file
from amdgpu_discovery.untrusted.plain_files import read_plain_file
from amdgpu_discovery.untrusted.plain_json import dumps, loads
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from amd_gpu_tracker.book.state import State

FILE_NAME = "ended-by-restart.json"
# The file is read only up to 64 KiB.
MOST_ENDED = 200


class Ended(Value):
    """A reservation by hand: its id, its owner, and when it would have ended, in seconds since 1970 (UTC)."""

    job: str
    person: int
    until: float

    @property
    def name(self) -> str:
        """Return its name without the number of its owner."""
        return self.job.rpartition("/")[2]


def ended_path(state: State) -> str:
    """Return the path of the notes; the service makes this file in each boot."""
    return f"{state.run_directory}/{FILE_NAME}"


def parse_ended(line: bytes) -> Ended | None:
    """Return the reservation by hand from a line that the history began; None for anything else."""
    try:
        return _made(loads(line), "id")
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return None


def read_ended(state: State) -> list[Ended]:
    """Return the reservations that a restart ended and that would still last."""
    now = time.time()
    try:
        found = [_made(fields, "job") for fields in loads(read_plain_file(ended_path(state))[0])]
    except (AttributeError, KeyError, OSError, RecursionError, TypeError, ValueError):
        return []
    return [each for each in found if each.until > now]


def note_ended(state: State, more: Iterable[Ended]) -> None:
    """Add reservations that a restart ended to the notes. On a full disk, nothing changes."""
    from contextlib import suppress

    noted = [*read_ended(state), *more][-MOST_ENDED:]
    with suppress(FileError):
        replace_file(ended_path(state), dumps([each.as_dict() for each in noted]) + b"\n", mode=0o644)


def _made(fields: dict[str, Any], name: str) -> Ended:
    job = fields[name]
    person = fields["person"] or 0
    until = fields["until"]
    ended = Ended.from_json({"job": job, "person": person, "until": until})
    if not 0 < ended.until < NEVER:
        raise ValueError("until is not a time")
    return ended
