"""The record of a reservation: a file in `open/` while it runs, then a line in the file of its month.

A file in `open/` has the month and the line without its end, so that the release hook, a shell script, only has to
append. Without `open/`, nothing is recorded. A full disk may lose a line of the history, but never prevents a start or
a release. Failures are noted.
"""

from __future__ import annotations

import posix
import time

from amd_gpu_tracker.book.lease import RESERVATION, Lease, since_boot
from amdgpu_discovery.files import append_to_file, put_in_place, read_file, write_beside
from amdgpu_discovery.untrusted.plain_json import dumps

VERSION = 1
# How the end became known: by the release hook, the program, a look, `reset`, or only by a restart of the machine.
HOOK, PROGRAM, FOUND, FORGOTTEN, POWER = "hook", "program", "found", "forgotten", "power"
# The limit of a line; a reservation of 1,000 GPUs has 30,000 characters.
LONGEST_HISTORY_LINE = 1 << 16
# Here the samples of a running reservation follow in its line; `watch.history.used` has their fields.
SAMPLES = ',"last":'
# Where `unrecorded` notes a failure of the history.
FAILED = "unrecorded/history"
# A killed process may have written the line without removing the file; search so many bytes at the end for it.
SEARCHED_BYTES = 1 << 20


def begin(directory: str, lease_path: str, lease: Lease) -> None:
    """Record that a reservation begins, or that it now has more GPUs."""
    text = format_begun(lease)
    begun = read_begun(open_path(directory, lease_path))
    if begun is not None and begun[1].startswith(text):
        return
    if begun is not None and not begun[1].startswith(identity_of(text)):
        finish(directory, lease_path, FOUND)
    write_begun(directory, lease_path, time.strftime("%Y-%m", time.gmtime(lease.since)), text)


def finish(directory: str, lease_path: str, how: str, *, end: float | None = None) -> None:
    """Write the line of a reservation that has ended, now or at `end` in seconds since boot.

    A reservation whose end was FOUND ended when the sampler last saw it alive, if it ever did.
    """
    path = open_path(directory, lease_path)
    begun = read_begun(path)
    if begun is None:
        return
    month, text = begun
    file = f"{directory}/{month}.jsonl"
    if end is None:
        end = (how == FOUND and _last_seen(text)) or since_boot()
    try:
        if not _is_written(file, identity_of(text)):
            # A full disk may have cut off an earlier line. release.sh writes the same end, as a test proves.
            append_to_file(file, f'\n{text},"end":{end:.2f},"how":"{how}"}}\n'.encode())
        posix.unlink(path)
    except OSError as error:
        _note_failed(directory, lease_path, error)
        return
    _note_works(lease_path)


def discard(directory: str, lease_path: str) -> None:
    """Record nothing about a reservation whose container never ran."""
    try:
        posix.unlink(open_path(directory, lease_path))
    except OSError:
        return


def format_begun(lease: Lease) -> str:
    """Return the line of a reservation, from its lease and without its end."""
    fields = {
        "version": VERSION,
        "boot_id": lease.boot_id,
        # In seconds since boot: the wall clock may be set meanwhile.
        "start": round(lease.since - lease.boot_offset, 2),
        "id": lease.container_id,
        "root": lease.root,
        "since": round(lease.since, 2),
        "ways": lease.ways,
        "person": lease.person,
        "vram_mb": lease.vram_mb,
        # The use of a container with a reservation's GPUs is part of that reservation's use.
        "part_of": lease.reservation,
        "gpus": lease.gpus,
    }
    if lease.kind == RESERVATION:
        # Needed to tell its owner if a restart ends it.
        fields["until"] = round(lease.until + lease.boot_offset, 2)
    return dumps(fields).decode()[:-1]


def identity_of(text: str) -> str:
    """Return the part of a line that no two reservations share."""
    return text.partition(',"since":')[0]


def open_path(directory: str, lease_path: str) -> str:
    """Return the file of a running reservation, whose lease is at `lease_path`."""
    return f"{directory}/open/{lease_path.rpartition('/')[2].removesuffix('.json')}"


def read_begun(path: str) -> tuple[str, str] | None:
    """Return the month and the line of a running reservation; None if nothing is recorded."""
    try:
        month, _, text = read_file(path, largest=LONGEST_HISTORY_LINE).decode().partition("\n")
    except (OSError, ValueError):
        return None
    is_month = len(month) == len("2026-11") and month.replace("-", "0", 1).isdigit() and month[4] == "-"
    return (month, text.rstrip("\n")) if is_month and text.startswith('{"version":1,') else None


def write_begun(directory: str, lease_path: str, month: str, text: str) -> None:
    """Write the month and the line of a running reservation, or note the failure."""
    path = open_path(directory, lease_path)
    try:
        put_in_place(write_beside(path, f"{month}\n{text}\n".encode(), mode=0o644), path)
    except OSError as error:
        _note_failed(directory, lease_path, error)
        return
    _note_works(lease_path)


def _note_failed(directory: str, lease_path: str, error: OSError) -> None:
    """Note that the history cannot be written, unless there no longer is one."""
    from amd_gpu_tracker.book.unrecorded import HISTORY, note_failure
    from amdgpu_discovery.errors import reason
    from amdgpu_discovery.files import is_directory

    if is_directory(f"{directory}/open"):
        note_failure(_run_directory(lease_path), HISTORY, f"{directory} cannot be written: {reason(error)}")


def _note_works(lease_path: str) -> None:
    """Remove the note of `_note_failed`."""
    try:
        posix.unlink(f"{_run_directory(lease_path)}/{FAILED}")
    except OSError:
        return


def _run_directory(lease_path: str) -> str:
    return lease_path.rpartition("/leases/")[0]


def _last_seen(text: str) -> float:
    """Return when the sampler last saw it, in seconds since boot; 0.0 for never."""
    try:
        return float(text.partition(SAMPLES)[2].partition(",")[0])
    except ValueError:
        return 0.0


def _is_written(file: str, identity: str) -> bool:
    try:
        descriptor = posix.open(file, posix.O_RDONLY | posix.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        start = max(0, posix.fstat(descriptor).st_size - SEARCHED_BYTES)
        return identity.encode() in posix.pread(descriptor, SEARCHED_BYTES, start)
    finally:
        posix.close(descriptor)
