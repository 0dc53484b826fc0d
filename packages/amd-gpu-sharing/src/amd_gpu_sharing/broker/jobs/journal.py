"""Log what the service did, for audits: lines on standard error, or entries with fields if systemd has a journal."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Protocol

from amd_gpu_sharing.broker.jobs.job_processes import gpus_of
from amd_gpu_tracker.book.job_ids import name_of
from amd_gpu_tracker.book.lease import Lease
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.book.unrecorded import read_failures
from amdgpu_discovery.host import Host
from amdgpu_discovery.untrusted.plain_text import one_line

# systemd-journald takes datagrams of lines `FIELD=value` here (systemd's "Native Journal Protocol").
JOURNAL = "/run/systemd/journal/socket"


class Journal(Protocol):
    """The signature of `write_line`."""

    def __call__(
        self, verdict: str, sentence: str, /, *, job: str = "", user: int | None = None, gpus: Iterable[int] = ()
    ) -> None:
        """Write a line with the arguments of `write_line`."""


def write_line(
    verdict: str, sentence: str, *, job: str = "", user: int | None = None, gpus: Iterable[int] = ()
) -> None:
    """Log a verdict ("granted") and a sentence about it, with fields that `journalctl` can search.

    `job` is the name of a job or reservation, `user` the uid of its owner or of the caller.
    """
    line = one_line(f"{verdict}: {sentence}")
    # The service must survive a restart of the journal.
    with suppress(OSError):
        if not _send(_fields(line, verdict, one_line(job), user, gpus)):
            print(line, file=sys.stderr, flush=True)


def log_of(log: Journal, lease: Lease, host: Host) -> Journal:
    """Return a log whose lines name the job of a lease."""
    gpus = [gpu.number for gpu in gpus_of(lease, host)]
    return partial(log, job=name_of(lease.job), user=lease.person, gpus=gpus)


class Unrecorded:
    """Logs once that a record cannot be written, and once that it can be written again."""

    def __init__(self, state: State, log: Journal) -> None:
        self._state = state
        self._log = log
        self._logged: dict[str, str] = {}

    def log_changes(self) -> None:
        """Log what has changed."""
        found = read_failures(self._state.run_directory)
        for record, problem in found.items():
            if self._logged.get(record) != problem:
                self._log("not recorded", f"{record}: {problem}")
        for record in sorted(self._logged.keys() - found.keys()):
            self._log("recorded again", record)
        self._logged = found


def _fields(line: str, verdict: str, job: str, user: int | None, gpus: Iterable[int]) -> Iterator[str]:
    yield from (f"MESSAGE={line}", "PRIORITY=6", "SYSLOG_IDENTIFIER=amd-gpu-tracker", f"VERDICT={verdict}")
    if job:
        yield f"JOB={job}"
    if user is not None:
        yield f"USER={user}"
    # A field may occur several times, and a search finds each of its values.
    yield from (f"GPU={number}" for number in gpus)


def _send(fields: Iterable[str]) -> bool:
    """Send fields to the journal without waiting; return whether it took them."""
    status = os.fstat(2)
    # Check that standard error is the stream that systemd gave the service (systemd.exec(5)).
    if os.environ.get("JOURNAL_STREAM") != f"{status.st_dev}:{status.st_ino}":
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
            # No value contains a line break: `one_line` has escaped them.
            journal.sendto("".join(f"{field}\n" for field in fields).encode(), socket.MSG_DONTWAIT, JOURNAL)
    except OSError:
        return False
    return True
