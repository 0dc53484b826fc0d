"""The directory of tickets: taken in turn, read by everybody, dropped with the process that waits.

Beside each ticket is a pipe. The waiter keeps it open, and the kernel closes it when the waiter ends or becomes the
program that it waited for; who is next has the other end and is woken by that. So a queue of any length costs nothing
while nothing happens. A byte in the pipe tells the waiter that its ticket was taken away.
"""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress

from amd_gpu_tracker.errors import ContainerRunning, WaitRefused, needs_root
from amd_gpu_tracker.records.state import make_directory
from amd_gpu_tracker.waiting.ticket import (
    FORMER_VERSION,
    LARGEST_TICKET,
    Ticket,
    format_ticket,
    parse_stem,
    parse_ticket,
)
from amdgpu_discovery.errors import FileError, reason
from amdgpu_discovery.files import TEMPORARY, put_in_place, write_beside
from amdgpu_discovery.plain_files import read_plain_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amd_gpu_tracker.life.processes import Processes
    from amd_gpu_tracker.records.lock import Lock
    from amd_gpu_tracker.records.state import State

TICKET = ".json"
PIPE = ".pipe"
MOST_TICKETS = 10_000
# There is no file, or it is none that this toolkit wrote. Anything else, as EMFILE, says nothing about a ticket.
NO_TICKET = frozenset((errno.ENOENT, errno.EFBIG, errno.EINVAL, errno.EISDIR, errno.ELOOP))
# Nobody has the other end, or the waiter took the pipe away.
NO_READER = frozenset((errno.ENXIO, errno.ENOENT))


class Place:
    """A ticket in the hands of its waiter: `pipe` is readable when the ticket may have been taken away."""

    __slots__ = ("pipe", "ticket")

    def __init__(self, ticket: Ticket, pipe: int) -> None:
        self.ticket = ticket
        self.pipe = pipe


class Queue:
    """The tickets of a host, or of one user of engines without root."""

    __slots__ = ("_processes", "directory", "lock_path")

    def __init__(self, state: State, processes: Processes) -> None:
        self.directory = f"{state.run_directory}/queue"
        self.lock_path = f"{state.run_directory}/queue.lock"
        self._processes = processes

    def take(self, name: str, request: str, count: int, among: Sequence[int], lock: Lock) -> Place:
        """Take the last place, for `count` of the GPUs with the numbers `among`.

        ContainerRunning where a job of this name waits, WaitRefused where too many do.
        """
        make_directory(self.directory)
        with lock(self.lock_path):
            self._clean()
            stems = self.stems()
            if len(stems) >= MOST_TICKETS:
                raise WaitRefused(f"{len(stems)} jobs wait already", hint="try again later")
            if any(parsed[1] == name and self.read(stem) for stem, parsed in _parsed(stems)):
                raise ContainerRunning(f"a job {name} waits already", hint="give every job a name of its own")
            # Never the number of a ticket that was dropped: who comes late to drop it must not meet another one.
            last = max((parsed[0] for _, parsed in _parsed(stems)), default=0)
            number = max(time.clock_gettime_ns(time.CLOCK_BOOTTIME), last + 1)
            ticket = Ticket(
                number=number,
                name=name,
                request=request,
                count=count,
                among=tuple(among),
                since=time.time(),
                waiter=self._processes.myself(),
                boot_id=self._processes.boot_id,
                namespace=self._processes.namespace,
            )
            return self._write(ticket)

    def stems(self) -> list[str]:
        """Return the names of the tickets in their order, also of those that are over."""
        try:
            names = os.listdir(self.directory)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise FileError(f"{self.directory} cannot be read: {reason(error)}") from error
        stems = (name.removesuffix(TICKET) for name in names if name.endswith(TICKET))
        return sorted(stem for stem in stems if parse_stem(stem))

    def read(self, stem: str) -> Ticket | None:
        """Return a ticket whose waiter lives; None for one that is over, that is gone or that nobody understands.

        FileError where that cannot be told, as where this process has too many files open.
        """
        parsed = parse_stem(stem)
        try:
            content = read_plain_file(f"{self.directory}/{stem}{TICKET}", largest=LARGEST_TICKET)[0]
        except OSError as error:
            if error.errno in NO_TICKET:
                return None
            raise FileError(f"{self.directory}/{stem}{TICKET} cannot be read: {reason(error)}") from error
        ticket = parse_ticket(*parsed, content) if parsed else None
        return ticket if ticket and self._is_waiting(ticket) else None

    def waiting(self) -> list[Ticket]:
        """Return the tickets of those who wait, in their order."""
        return [ticket for stem in self.stems() if (ticket := self.read(stem))]

    def cancel(self, name: str) -> bool:
        """Take the ticket of this name away; False where nobody of this name waits."""
        return any(self.drop(ticket.stem) for ticket in self.waiting() if ticket.name == name)

    def has(self, ticket: Ticket) -> bool:
        """Return whether nobody took a ticket away."""
        return os.path.lexists(f"{self.directory}/{ticket.stem}{TICKET}")

    def drop(self, stem: str) -> bool:
        """Take a ticket away; False where somebody did so before."""
        try:
            os.unlink(f"{self.directory}/{stem}{TICKET}")
        except FileNotFoundError:
            return False
        except PermissionError as error:
            raise needs_root() from error
        except OSError as error:
            raise FileError(f"{self.directory}/{stem}{TICKET} cannot be removed: {reason(error)}") from error
        finally:
            self._wake(stem)
        return True

    def leave(self, place: Place) -> bool:
        """Give a place up, which wakes who is next; False where the ticket was taken away before."""
        try:
            return self.drop(place.ticket.stem)
        finally:
            os.close(place.pipe)

    def open_pipe(self, stem: str) -> int | None:
        """Return the pipe of a waiter, whose other end the waiter has; None where nobody has it. Errors as `read`."""
        try:
            return os.open(f"{self.directory}/{stem}{PIPE}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno in NO_READER:
                return None
            raise FileError(f"{self.directory}/{stem}{PIPE} cannot be opened: {reason(error)}") from error

    def is_stopped(self, ticket: Ticket) -> bool:
        """Return whether a waiter was stopped, as by Ctrl-Z: it must not hold up those behind it."""
        is_visible = ticket.namespace == self._processes.namespace
        return is_visible and self._processes.is_stopped(ticket.waiter.pid)

    def _is_waiting(self, ticket: Ticket) -> bool:
        if ticket.boot_id != self._processes.boot_id:
            return False
        if ticket.namespace == self._processes.namespace:
            return self._processes.is_running(ticket.waiter)
        return self._is_pipe_held(ticket)

    def _is_pipe_held(self, ticket: Ticket) -> bool:
        """Return whether somebody has the other end of a waiter's pipe: a proof that needs no process id."""
        try:
            pipe = self.open_pipe(ticket.stem)
        except FileError:
            # What cannot be judged counts as waiting; `amd-ctk queue cancel` takes it away.
            return True
        if pipe is not None:
            os.close(pipe)
        return pipe is not None

    def _write(self, ticket: Ticket) -> Place:
        path = f"{self.directory}/{ticket.stem}"
        try:
            os.mkfifo(f"{path}{PIPE}", 0o600)
            # Open for both, so that it does not count as closed whenever nobody listens.
            pipe = os.open(f"{path}{PIPE}", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            put_in_place(
                write_beside(f"{path}{TICKET}", format_ticket(ticket, FORMER_VERSION), mode=0o644), f"{path}{TICKET}"
            )
        except OSError as error:
            raise FileError(f"{path}{TICKET} cannot be written: {reason(error)}") from error
        return Place(ticket, pipe)

    def _wake(self, stem: str) -> None:
        pipe = None
        # Who is not woken by it looks after a while.
        with suppress(FileError):
            pipe = self.open_pipe(stem)
        with suppress(OSError):
            os.unlink(f"{self.directory}/{stem}{PIPE}")
        if pipe is not None:
            # Where it is full, the waiter has been told before.
            with suppress(BlockingIOError, BrokenPipeError):
                os.write(pipe, b"x")
            os.close(pipe)

    def _clean(self) -> None:
        """Remove what killed waiters left that is no ticket; with the lock held nobody is about to make one of it."""
        try:
            names = set(os.listdir(self.directory))
        except OSError:
            return
        for name in names:
            is_left = name.endswith(PIPE) and f"{name.removesuffix(PIPE)}{TICKET}" not in names
            if is_left or name.endswith(TEMPORARY):
                with suppress(OSError):
                    os.unlink(f"{self.directory}/{name}")


def _parsed(stems: list[str]) -> list[tuple[str, tuple[int, str]]]:
    return [(stem, parsed) for stem in stems if (parsed := parse_stem(stem))]
