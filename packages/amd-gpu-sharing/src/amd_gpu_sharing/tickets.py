"""Tickets of waiting jobs: who waits for how many GPUs, and since when.

They are files that all users may read and only their owner's service changes.
"""

from __future__ import annotations

import errno
import os

from amd_gpu_tracker.book.lease import LARGEST_ID, MOST_LEASED_GPUS, NEVER, ProcessId, on_this_clock
from amd_gpu_tracker.book.state import State, make_directory
from amd_gpu_tracker.companion import WAITING
from amd_gpu_tracker.errors import needs_root
from amdgpu_discovery.errors import FileError, reason
from amdgpu_discovery.files import TEMPORARY, write_new_file
from amdgpu_discovery.untrusted.plain_files import read_plain_file
from amdgpu_discovery.untrusted.plain_json import dumps, loads
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from amd_gpu_tracker.leases.processes import Processes

VERSION = 2
LARGEST_TICKET = 4096
LONGEST_REQUEST_SHOWN = 200
# Digits of a number of nanoseconds since boot.
DIGITS = 20
SUFFIX = ".json"
# The file with the latest times at which waiting jobs get their GPUs, by the number of the ticket.
STARTS = "starts"
LARGEST_STARTS = 1 << 20
# The file is missing, or this toolkit did not write it. Any other error, such as EMFILE, says nothing about a ticket.
NO_TICKET = frozenset((errno.ENOENT, errno.EFBIG, errno.EINVAL, errno.EISDIR, errno.ELOOP))


class Ticket(Value):
    """A place in the queue.

    Attributes:
        number: Place in the order of all tickets, from when it was taken.
        name: Name of the job.
        request: The job's request, cut off if it is long.
        count: How many GPUs it requests.
        among: Numbers of the GPUs that fit it; it is ahead only of jobs that want one of them.
        since: When it was taken, in seconds since 1970 (UTC).
        waiter: The process that waits.
        boot_id: The kernel's name for the boot in which it was taken.
        namespace: The pid namespace of the process ids.
        owner: The user whose process waits; names belong to a user.
        person: The user whose job it is: the owner, or the user who became root by sudo.
        is_spare: Whether it wants GPUs only as long as no other job does.
        put_first: When root put it first, in nanoseconds since boot; 0 for never. The last one goes before all others.
        vram_mb: How much memory of each GPU it wants, in MiB; 0 for whole GPUs.
        latest: When it gets its GPUs at the latest, by the last estimate, in seconds since 1970; None if unknown. It is
            not in the ticket's file.
    """

    number: int
    name: str
    request: str
    count: int
    among: tuple[int, ...]
    since: float
    waiter: ProcessId
    boot_id: str
    namespace: str
    owner: int = 0
    person: int = 0
    is_spare: bool = False
    put_first: int = 0
    vram_mb: int = 0
    latest: float | None = None

    @property
    def stem(self) -> str:
        """Return the beginning of the names of its files."""
        return f"{self.number:0{DIGITS}d}-{self.name}"


def parse_stem(stem: str) -> tuple[int, str] | None:
    """Return number and name of a ticket from the name of its file, None if it is no ticket."""
    digits, _, name = stem.partition("-")
    if len(digits) != DIGITS or not (digits.isascii() and digits.isdecimal()) or not name:
        return None
    return int(digits), name


def format_ticket(ticket: Ticket) -> bytes:
    """Return a ticket as the content of its file; number and name are in the file's name."""
    # A service of an earlier version knows only the others.
    unset = [name for name in ("is_spare", "put_first", "vram_mb") if not getattr(ticket, name)]
    left_out = ("number", "name", "latest", *unset)
    fields = {name: getattr(ticket, name) for name in Ticket.fields() if name not in left_out}
    cut = {"request": ticket.request[:LONGEST_REQUEST_SHOWN], "waiter": ticket.waiter.as_dict()}
    return dumps({"version": VERSION, **fields, **cut}) + b"\n"


def parse_ticket(number: int, name: str, content: bytes) -> Ticket | None:
    """Return the ticket in a file with this content, None if `format_ticket` did not write it."""
    try:
        fields: dict[str, Any] = loads(content)
        if fields.pop("version") != VERSION:
            return None
        ticket = Ticket.from_json({**fields, "number": number, "name": name}, {"ProcessId": ProcessId})
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return None
    is_sound = ticket.waiter.is_possible and all(0 <= number < MOST_LEASED_GPUS for number in ticket.among)
    is_sound = is_sound and ticket.put_first >= 0 and 0 <= ticket.vram_mb <= LARGEST_ID
    return ticket if is_sound and 0 <= ticket.since < NEVER and 0 < ticket.count < NEVER else None


class Tickets:
    """The tickets of a host, or of one user of rootless engines."""

    def __init__(self, state: State, processes: Processes) -> None:
        self.directory = f"{state.run_directory}/{WAITING}"
        self._processes = processes

    def waiting(self) -> list[Ticket]:
        """Return the tickets of waiting jobs, by number; before them, those that root put first."""
        tickets = [ticket for stem in self.stems() if (ticket := self._read(stem))]
        return sorted(tickets, key=lambda ticket: -ticket.put_first)

    def with_starts(self) -> list[Ticket]:
        """Return the tickets of waiting jobs, with the latest times at which they get their GPUs.

        All times are those of the wall clock as it is now.
        """
        starts = self._read_starts()
        return [_on_this_clock(ticket.replace(latest=starts.get(str(ticket.number)))) for ticket in self.waiting()]

    def write_starts(self, starts: Mapping[int, float]) -> None:
        """Write the latest times at which waiting jobs get their GPUs, by the number of the ticket; FileError.

        Without times, the file is removed.
        """
        path = f"{self.directory}/{STARTS}"
        if starts:
            write_new_file(path, dumps({str(number): start for number, start in starts.items()}), mode=0o644)
        else:
            _drop_file(path)

    def named(self, name: str) -> list[Ticket]:
        """Return the tickets of jobs that wait under this name."""
        stems = (stem for stem in self.stems() if (parse_stem(stem) or (0, ""))[1] == name)
        return [ticket for stem in stems if (ticket := self._read(stem))]

    def is_visible(self, ticket: Ticket) -> bool:
        """Return whether the waiting process is visible from here, and exists."""
        is_here = ticket.namespace == self._processes.namespace and ticket.boot_id == self._processes.boot_id
        return is_here and self._processes.is_running(ticket.waiter)

    def is_stopped(self, ticket: Ticket) -> bool:
        """Return whether the waiting process is stopped, as by Ctrl-Z: it must not hold up the jobs behind it."""
        is_here = ticket.namespace == self._processes.namespace
        return is_here and self._processes.is_stopped(ticket.waiter.pid)

    def add(self, ticket: Ticket) -> None:
        """Write a ticket's file. Raises FileError."""
        make_directory(self.directory)
        write_new_file(self._path(ticket.stem), format_ticket(ticket), mode=0o644)

    def has(self, ticket: Ticket) -> bool:
        """Return whether a ticket is still there."""
        return os.path.lexists(self._path(ticket.stem))

    def drop(self, ticket: Ticket) -> bool:
        """Remove a ticket; return False if it was gone already."""
        return _drop_file(self._path(ticket.stem))

    def sweep(self) -> None:
        """Remove the files of jobs that no longer wait, and of writes that were interrupted."""
        # `amd-ctk status` reads tickets, and does not need the six modules that contextlib loads.
        from contextlib import suppress

        for name in self._names():
            stem = name.removesuffix(SUFFIX)
            ticket = self._read(stem) if parse_stem(stem) else None
            is_own = name.endswith(TEMPORARY) or (name.endswith(SUFFIX) and parse_stem(stem) is not None)
            if is_own and not (ticket and self.is_visible(ticket)):
                # A file that cannot be removed must not hold up a job.
                with suppress(FileError):
                    _drop_file(f"{self.directory}/{name}")

    def stems(self) -> list[str]:
        """Return the names of all tickets in their order, also of those whose jobs no longer wait."""
        stems = (name.removesuffix(SUFFIX) for name in self._names() if name.endswith(SUFFIX))
        return sorted(stem for stem in stems if parse_stem(stem))

    def _read_starts(self) -> dict[str, float]:
        """Return what `write_starts` wrote, {} if it cannot be read: lists work without it."""
        try:
            starts = loads(read_plain_file(f"{self.directory}/{STARTS}", largest=LARGEST_STARTS)[0])
        except (OSError, RecursionError, ValueError):
            return {}
        if type(starts) is not dict:
            return {}
        known = ((number, start) for number, start in starts.items() if type(start) in (int, float))
        return {number: float(start) for number, start in known if 0 <= start < NEVER}

    def _names(self) -> list[str]:
        try:
            return os.listdir(self.directory)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise FileError(f"{self.directory} cannot be read: {reason(error)}") from error

    def _read(self, stem: str) -> Ticket | None:
        """Return a waiting job's ticket. A process in another pid namespace cannot be checked, so it counts as waiting.

        Raises FileError if nothing can be known, for example because this process has too many files open.
        """
        parsed = parse_stem(stem)
        try:
            content = read_plain_file(self._path(stem), largest=LARGEST_TICKET)[0]
        except OSError as error:
            if error.errno in NO_TICKET:
                return None
            raise FileError(f"{self._path(stem)} cannot be read: {reason(error)}") from error
        ticket = parse_ticket(*parsed, content) if parsed else None
        if ticket is None or ticket.boot_id != self._processes.boot_id:
            return None
        is_foreign = ticket.namespace != self._processes.namespace
        return ticket if is_foreign or self._processes.is_running(ticket.waiter) else None

    def _path(self, stem: str) -> str:
        return f"{self.directory}/{stem}{SUFFIX}"


def all_tickets(states: Iterable[State], processes: Processes) -> list[Tickets]:
    """Return the tickets of these states, once for each run directory."""
    by_directory = {each.run_directory: each for each in states}
    return [Tickets(each, processes) for each in by_directory.values()]


def _on_this_clock(ticket: Ticket) -> Ticket:
    # The number is the time since boot.
    return ticket.replace(since=on_this_clock(ticket.since, ticket.since - ticket.number / 1e9))


def _drop_file(path: str) -> bool:
    """Remove a file; return False if there is none."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    except PermissionError as error:
        raise needs_root() from error
    except OSError as error:
        raise FileError(f"{path} cannot be removed: {reason(error)}") from error
    return True
