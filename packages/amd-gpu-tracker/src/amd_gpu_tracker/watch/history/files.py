"""The files of the history: read them month by month, end what a power cut left open, remove what is too old."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from amd_gpu_tracker.book.history import FOUND, LONGEST_HISTORY_LINE, POWER, finish
from amd_gpu_tracker.book.lease import since_boot
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.book.unrecorded import HISTORY, clear_failure
from amd_gpu_tracker.claims.claim import Book
from amd_gpu_tracker.errors import needs_root
from amd_gpu_tracker.watch.history.ended import Ended, ended_path, note_ended, parse_ended
from amd_gpu_tracker.watch.history.used import Used, parse_if_sound, parse_lines
from amdgpu_discovery.errors import FileError, ToolkitError, reason

ENDING = ".jsonl"
DAY = 24 * 3600


class HistoryError(ToolkitError):
    """The history cannot be read."""

    exit_code = 3


def stop_history(state: State) -> None:
    """Stop recording; earlier records stay."""
    directory = f"{state.history_directory}/open"
    try:
        for name in _names(directory):
            os.unlink(f"{directory}/{name}")
        os.rmdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except PermissionError as error:
        raise needs_root() from error
    except OSError as error:
        raise FileError(f"{directory} cannot be removed: {reason(error)}") from error
    # A history that is turned off has no failure.
    clear_failure(state.run_directory, HISTORY)


def settle(book: Book) -> None:
    """Write the line of every reservation without a lease: its release was interrupted, or the machine restarted.

    Those that a restart ended are noted for their owners.
    """
    state, boot_id = book.state, book.processes.boot_id
    ended: list[Ended] = []
    with book.locked():
        for name in _names(f"{state.history_directory}/open"):
            path = f"{state.leases_directory}/{name}.json"
            begun = _read_open(state, name)
            if f'"boot_id":"{boot_id}"'.encode() not in begun:
                found = parse_ended(_whole(begun))
                ended += [found] if found else []
                finish(state.history_directory, path, POWER)
            elif not os.path.exists(path):
                finish(state.history_directory, path, FOUND)
        if ended or not os.path.exists(ended_path(state)):
            note_ended(state, ended)


def read_history(state: State, *, since: float, until: float) -> Iterator[Used | None]:
    """Yield the reservations that overlap a time span, unsorted, and None for each line that cannot be read.

    Times are in seconds since 1970 (UTC). HistoryError if the caller may not read them.
    """
    for used in _read_all(state):
        if used is None or (used.since < until and used.since + used.seconds >= since):
            yield used


def remove_old(state: State, *, days: int, now: float) -> None:
    """Remove the files of months that ended more than `days` ago."""
    oldest = time.strftime("%Y-%m", time.gmtime(max(0.0, now - days * DAY)))
    for name in _names(state.history_directory):
        if name.endswith(ENDING) and name.removesuffix(ENDING) < oldest:
            os.unlink(f"{state.history_directory}/{name}")


def _read_all(state: State) -> Iterator[Used | None]:
    now = since_boot()
    for name in _names(f"{state.history_directory}/open"):
        if content := _read_open(state, name):
            yield parse_if_sound(_whole(content), end=now)
    for name in sorted(_names(state.history_directory)):
        if name.endswith(ENDING):
            yield from _read_month(f"{state.history_directory}/{name}")


def _read_month(path: str) -> Iterator[Used | None]:
    try:
        with open(path, "rb") as file:
            while block := file.read(LONGEST_HISTORY_LINE):
                yield from parse_lines(block + file.readline(LONGEST_HISTORY_LINE))
    except OSError as error:
        raise HistoryError(f"{path} cannot be read: {reason(error)}") from error


def _whole(begun: bytes) -> bytes:
    """Return the line of a running reservation as JSON."""
    return begun.partition(b"\n")[2].rstrip() + b"}"


def _read_open(state: State, name: str) -> bytes:
    try:
        with open(f"{state.history_directory}/open/{name}", "rb") as file:
            return file.read(LONGEST_HISTORY_LINE)
    except OSError:
        return b""


def _names(directory: str) -> list[str]:
    try:
        return [name for name in os.listdir(directory) if not name.endswith(".tmp")]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        hint = "run it as root, or let root give a group the history: 'sudo amd-ctk report enable --readers GROUP'"
        raise HistoryError(f"{directory} cannot be read: {reason(error)}", hint=hint) from error
