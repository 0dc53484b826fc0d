"""The tickets of those who wait through the broker: files that everybody may read and only root changes.

They have a directory of their own: a waiter of a version before would throw tickets without a pipe out of its queue.
"""

from __future__ import annotations

import os

from amd_gpu_tracker.errors import needs_root
from amd_gpu_tracker.records.state import make_directory
from amd_gpu_tracker.waiting.ticket import LARGEST_TICKET, format_ticket, parse_stem, parse_ticket
from amdgpu_discovery.errors import FileError, reason
from amdgpu_discovery.files import put_in_place, write_beside
from amdgpu_discovery.plain_files import read_plain_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_gpu_tracker.life.processes import Processes
    from amd_gpu_tracker.records.state import State
    from amd_gpu_tracker.waiting.ticket import Ticket

SUFFIX = ".json"


class Tickets:
    """The directory of tickets."""

    __slots__ = ("_processes", "directory")

    def __init__(self, state: State, processes: Processes) -> None:
        self.directory = f"{state.run_directory}/waiting"
        self._processes = processes

    def waiting(self) -> list[Ticket]:
        """Return the tickets of those who wait, by number."""
        return [ticket for stem in self._stems() if (ticket := self._read(stem)) and self.is_alive(ticket)]

    def is_alive(self, ticket: Ticket) -> bool:
        """Return whether the process that waits exists."""
        return ticket.boot_id == self._processes.boot_id and self._processes.is_running(ticket.waiter)

    def add(self, ticket: Ticket) -> None:
        """Put a ticket in its place; FileError."""
        make_directory(self.directory)
        path = self._path(ticket.stem)
        try:
            put_in_place(write_beside(path, format_ticket(ticket), mode=0o644), path)
        except OSError as error:
            raise FileError(f"{path} cannot be written: {reason(error)}") from error

    def has(self, ticket: Ticket) -> bool:
        """Return whether nobody took a ticket away."""
        return os.path.lexists(self._path(ticket.stem))

    def drop(self, ticket: Ticket) -> bool:
        """Take a ticket away; False where somebody did so before."""
        return self._drop(ticket.stem)

    def sweep(self) -> None:
        """Take away what is left of those who do not wait any more."""
        for stem in self._stems():
            ticket = self._read(stem)
            if ticket is None or not self.is_alive(ticket):
                self._drop(stem)

    def _stems(self) -> list[str]:
        try:
            names = os.listdir(self.directory)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise FileError(f"{self.directory} cannot be read: {reason(error)}") from error
        stems = (name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))
        return sorted(stem for stem in stems if parse_stem(stem))

    def _read(self, stem: str) -> Ticket | None:
        parsed = parse_stem(stem)
        try:
            content = read_plain_file(self._path(stem), largest=LARGEST_TICKET)[0]
        except OSError:
            return None
        return parse_ticket(*parsed, content) if parsed else None

    def _drop(self, stem: str) -> bool:
        try:
            os.unlink(self._path(stem))
        except FileNotFoundError:
            return False
        except PermissionError as error:
            raise needs_root() from error
        except OSError as error:
            raise FileError(f"{self._path(stem)} cannot be removed: {reason(error)}") from error
        return True

    def _path(self, stem: str) -> str:
        return f"{self.directory}/{stem}{SUFFIX}"
