"""What is written down of a job while it is ended, so that a broker that starts again goes on where one was killed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress

from amd_gpu_tracker.records.lease import Lease, ProcessId, format_lease, parse_lease
from amd_gpu_tracker.records.state import State
from amdgpu_discovery.errors import FileError
from amdgpu_discovery.files import make_directories, read_file, replace_file
from amdgpu_discovery.plain_json import dumps, loads
from amdgpu_discovery.value import Value


class EndingNote(Value):
    """A job that is being ended.

    Attributes:
        lease: Its lease, as that was.
        known: Its processes when it got TERM.
        at: When that was, in seconds since boot.
    """

    lease: Lease
    known: tuple[ProcessId, ...]
    at: float


def write_note(state: State, lease: Lease, known: Iterable[ProcessId], *, now: Callable[[], float]) -> None:
    """Write down which processes of a job get TERM now; on a full disk nothing is, and it is ended all the same."""
    fields = {
        "lease": loads(format_lease(lease)),
        "known": [each.as_dict() for each in known],
        "at": now(),
    }
    with suppress(OSError, FileError):
        make_directories(_directory(state))
        replace_file(_path(state, lease), dumps(fields) + b"\n", mode=0o600)


def drop_note(state: State, lease: Lease) -> None:
    """Forget a job that has been ended."""
    with suppress(OSError):
        os.unlink(_path(state, lease))


def read_notes(state: State) -> list[EndingNote]:
    """Return the jobs that were being ended; what cannot be understood is dropped."""
    notes = []
    for name in sorted(os.listdir(_directory(state))) if os.path.isdir(_directory(state)) else ():
        try:
            notes.append(_parse(read_file(f"{_directory(state)}/{name}")))
        except (OSError, AttributeError, KeyError, RecursionError, TypeError, ValueError):
            with suppress(OSError):
                os.unlink(f"{_directory(state)}/{name}")
    return notes


def _parse(content: bytes) -> EndingNote:
    fields = loads(content)
    known = tuple(ProcessId(pid=int(each["pid"]), start=int(each["start"])) for each in fields["known"])
    return EndingNote(lease=parse_lease(dumps(fields["lease"])), known=known, at=float(fields["at"]))


def _directory(state: State) -> str:
    return f"{state.run_directory}/ending"


def _path(state: State, lease: Lease) -> str:
    return f"{_directory(state)}/{os.path.basename(state.lease_path(lease.key))}"
