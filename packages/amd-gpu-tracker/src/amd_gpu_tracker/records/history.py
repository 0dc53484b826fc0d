"""What stays of a reservation: while it runs a file in `open/`, when it has ended a line in the file of its month.

A file in `open/` is the month and the line as far as it is known, without its end, so that the release hook, which is a
shell script, only appends. Nothing is recorded where there is no `open/`. It is history: a full disk loses a line and
never a start or a release, and that it does is noted.
"""

from __future__ import annotations

import posix
import time

from amd_gpu_tracker.records.lease import Lease, since_boot
from amdgpu_discovery.files import append_to_file, put_in_place, read_file, write_beside
from amdgpu_discovery.plain_json import dumps

VERSION = 1
# How it is known that a reservation ended: by the release hook, its own program, a look that found it over, `reset`,
# or only that it was there before the power went.
HOOK, PROGRAM, FOUND, FORGOTTEN, POWER = "hook", "program", "found", "forgotten", "power"
# No line is longer; a reservation of 1,000 GPUs has 30,000 characters.
LONGEST_LINE = 1 << 16
# Where `unrecorded` notes that it cannot be written.
FAILED = "unrecorded/history"
# Who was killed between the line and the removal of the file left it about here.
LOOKED_AT = 1 << 20


def begin(directory: str, lease_path: str, lease: Lease) -> None:
    """Write down that a reservation begins, or that it has more GPUs now."""
    text = format_begun(lease)
    begun = read_begun(open_path(directory, lease_path))
    if begun is not None and begun[1].startswith(text):
        return
    if begun is not None and not begun[1].startswith(identity_of(text)):
        finish(directory, lease_path, FOUND)
    write_begun(directory, lease_path, time.strftime("%Y-%m", time.gmtime(lease.since)), text)


def finish(directory: str, lease_path: str, how: str, *, end: float | None = None) -> None:
    """Write the line of a reservation that has ended, now or at `end` in seconds since boot.

    One that was found over ended when it was last seen alive, if it was looked at.
    """
    path = open_path(directory, lease_path)
    begun = read_begun(path)
    if begun is None:
        return
    month, text = begun
    file = f"{directory}/{month}.jsonl"
    if end is None:
        end = (how == FOUND and _last_look(text)) or since_boot()
    try:
        if not _is_written(file, identity_of(text)):
            # An earlier line may be cut off where the disk was full.
            append_to_file(file, f'\n{text},"end":{end:.2f},"how":"{how}"}}\n'.encode())
        posix.unlink(path)
    except OSError as error:
        _note_failed(directory, lease_path, error)
        return
    _note_works(lease_path)


def forget(directory: str, lease_path: str) -> None:
    """Leave no line of a reservation whose container never ran."""
    try:
        posix.unlink(open_path(directory, lease_path))
    except OSError:
        return


def format_begun(lease: Lease) -> str:
    """Return the line of a reservation as far as its lease says it, without its end."""
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
        # A container with the GPUs of a reservation does not use more than that.
        "part_of": lease.reservation,
        "gpus": lease.gpus,
    }
    if lease.until and not lease.reservation:
        # Who has it is told where a restart ends it.
        fields["until"] = round(lease.until + lease.boot_offset, 2)
    return dumps(fields).decode()[:-1]


def identity_of(text: str) -> str:
    """Return the part of a line that no two reservations share."""
    return text.partition(',"since":')[0]


def open_path(directory: str, lease_path: str) -> str:
    """Return the file of a running reservation, whose lease is at `lease_path`."""
    return f"{directory}/open/{lease_path.rpartition('/')[2].removesuffix('.json')}"


def read_begun(path: str) -> tuple[str, str] | None:
    """Return the month and the line of a running reservation; None where nothing is recorded."""
    try:
        month, _, text = read_file(path, largest=LONGEST_LINE).decode().partition("\n")
    except (OSError, ValueError):
        return None
    is_month = len(month) == len("2026-11") and month.replace("-", "0", 1).isdigit() and month[4] == "-"
    return (month, text.rstrip("\n")) if is_month and text.startswith('{"version":1,') else None


def write_begun(directory: str, lease_path: str, month: str, text: str) -> None:
    """Write the month and the line of a running reservation; a failure is noted."""
    path = open_path(directory, lease_path)
    try:
        put_in_place(write_beside(path, f"{month}\n{text}\n".encode(), mode=0o644), path)
    except OSError as error:
        _note_failed(directory, lease_path, error)
        return
    _note_works(lease_path)


def _note_failed(directory: str, lease_path: str, error: OSError) -> None:
    """Note that the history cannot be written; if there is none any more, there is nothing to note."""
    from amd_gpu_tracker.records.unrecorded import HISTORY, note_failure
    from amdgpu_discovery.errors import reason
    from amdgpu_discovery.files import is_directory

    if is_directory(f"{directory}/open"):
        note_failure(_run_directory(lease_path), HISTORY, f"{directory} cannot be written: {reason(error)}")


def _note_works(lease_path: str) -> None:
    """Take back what `_note_failed` noted."""
    try:
        posix.unlink(f"{_run_directory(lease_path)}/{FAILED}")
    except OSError:
        return


def _run_directory(lease_path: str) -> str:
    return lease_path.rpartition("/leases/")[0]


def _last_look(text: str) -> float:
    """Return when the sampler saw it, in seconds since boot; 0.0 where it never did."""
    try:
        return float(text.partition(',"last":')[2].partition(",")[0])
    except ValueError:
        return 0.0


def _is_written(file: str, identity: str) -> bool:
    try:
        descriptor = posix.open(file, posix.O_RDONLY | posix.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        start = max(0, posix.fstat(descriptor).st_size - LOOKED_AT)
        return identity.encode() in posix.pread(descriptor, LOOKED_AT, start)
    finally:
        posix.close(descriptor)
