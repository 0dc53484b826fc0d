"""A broker as a process, and persons with their own uids who send requests to it; needs root."""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import select
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from amd_gpu_sharing.broker.requests import client
from amd_gpu_sharing.broker.requests.client import connect, is_served, send_request
from amd_gpu_sharing.broker.requests.demand import Demand
from amd_gpu_sharing.broker.requests.people import Permission, Terms, parse_permission, without_ended
from amd_gpu_sharing.broker.requests.protocol import RUN, SOCKET, Request
from amd_gpu_sharing.broker.serve import serve
from amd_gpu_sharing.rules.accounts import read_expiries
from amd_gpu_sharing.tickets import Ticket, Tickets, format_ticket
from amd_gpu_tracker.book.history import format_begun, open_path
from amd_gpu_tracker.book.lease import ProcessId, since_boot
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.face.tracker import Tracker
from amd_gpu_tracker.leases.processes import Processes
from amd_gpu_tracker.watch.history.ended import ended_path
from amdgpu_discovery.choices.rules import ChoiceRules
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host
from support.other_user import become

# Many times the length of a step, for busy machines.
SECONDS = 90
LARGEST_DESCRIPTOR = 1 << 20
# Uids without accounts.
ALICE, BOB, CAROL = 40001, 40002, 40003
GROUPS = {"notebooks": "0-1"}


class Clock:
    """This machine's clock, which a test can set forward for a process and all its children."""

    def __init__(self) -> None:
        self._ahead = mmap.mmap(-1, 8)

    def now(self) -> float:
        """Return the time in seconds since boot."""
        (ahead,) = struct.unpack("d", self._ahead)
        return since_boot() + float(ahead)

    def forward(self, seconds: float) -> None:
        (ahead,) = struct.unpack("d", self._ahead)
        self._ahead[:] = struct.pack("d", ahead + seconds)


class Broker:
    """A broker that can be killed and restarted. Its permissions can change at any time."""

    def __init__(self, host: Host, *, grace: float = 1.0) -> None:
        """Serve a host; jobs have `grace` seconds between TERM and KILL."""
        self.grace = grace
        self.clock = Clock()
        self.host = host
        self.socket = host.path(SOCKET)
        self.log = host.path("/log")
        self._terms_path = host.path("/terms")
        self.pid = 0
        # Whether only persons with a reservation may open a GPU.
        self.is_reserved = False
        self.has_private_names = False
        # Whether processes that a job has left are ended.
        self.cleans = False
        # Whether jobs share exclusive GPUs by parts.
        self.shares_by_vram = False
        self.set_terms("fifo", "everyone")

    def set_terms(self, order: str, *permissions: str, idle: int = 0) -> None:
        # Replaced atomically, because the broker may read it at any moment.
        with open(f"{self._terms_path}.new", "w", encoding="utf-8") as file:
            access, names = (
                "reserved" if self.is_reserved else "group",
                "private" if self.has_private_names else "public",
            )
            cleans = "auto" if self.cleans else "no"
            shares = "yes" if self.shares_by_vram else "no"
            file.write("\n".join((order, access, names, str(idle), cleans, shares, *permissions)))
        os.replace(f"{self._terms_path}.new", self._terms_path)

    def start(self) -> Broker:
        self.pid = os.fork()
        if not self.pid:
            with contextlib.suppress(BaseException):
                # If this worker of pytest-xdist dies, its pipes must end with it: else the session waits for ever.
                os.closerange(3, LARGEST_DESCRIPTOR)
                log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                sys.stderr = os.fdopen(log, "w")
                try:
                    processes = Processes(now=self.clock.now)
                    serve(self.host, self._terms, listen=self.socket, grace=self.grace, processes=processes)
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)
            os._exit(0)
        wait_until(lambda: self._listens(self.pid))
        return self

    def kill(self, number: int = signal.SIGKILL) -> int:
        os.kill(self.pid, number)
        status = os.waitpid(self.pid, 0)[1]
        self.pid = 0
        return status

    def kill_with_children(self) -> None:
        """End it and the children that end jobs, which would write to the host while a test removes that."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)
        children = [os.pidfd_open(each.pid) for each in self.children()]
        self.kill()
        for child in children:
            signal.pidfd_send_signal(child, signal.SIGKILL)
            assert select.select([child], [], [], SECONDS)[0], "a child of the broker does not end"
            os.close(child)

    def pass_time(self, seconds: float) -> None:
        """Set the broker's clock forward. The broker reads it whenever it wakes."""
        self.clock.forward(seconds)
        connect(self.socket).close()

    def wake(self) -> None:
        finish_poll(self.socket)

    def children(self) -> list[ProcessId]:
        """Return the broker's running children, such as a check for idle jobs."""
        return [pid for pid, parent in Processes().parents().items() if parent == self.pid]

    def lines(self) -> list[str]:
        """Return what it logged about requests and jobs, without what it said of itself at its start.

        It answers before it logs, so wait until it has done all that belongs to its answers.
        """
        if self.pid:
            self.wake()
        return self._logged()

    def wait_for_line(self, begin: str) -> str:
        """Wait until it has logged a line that begins so, and return the first; nothing wakes it meanwhile."""
        wait_until(lambda: any(line.startswith(begin) for line in self._logged()))
        return next(line for line in self._logged() if line.startswith(begin))

    def _logged(self) -> list[str]:
        with open(self.log, encoding="utf-8") as file:
            return [line for line in file.read().splitlines() if not line.startswith("limited: ")]

    def terms(self) -> tuple[Permission, ...]:
        """Return the current permissions."""
        return self._terms(self.host).permissions

    def _terms(self, host: Host) -> Terms:
        expiries, now = read_expiries(host), time.time()
        with open(self._terms_path, encoding="utf-8") as file:
            order, access, names, idle, cleans, shares, *permissions = file.read().splitlines()
        return Terms(
            rules=ChoiceRules(groups=GROUPS, shares_by_vram=shares == "yes"),
            permissions=tuple(without_ended(map(parse_permission, permissions), now)),
            order=order,
            is_reserved=access == "reserved",
            idle=int(idle),
            has_private_names=names == "private",
            cleans=cleans == "auto",
            expiries=expiries,
            expired=frozenset(uid for uid, at in expiries.items() if at <= now),
        )

    def _listens(self, pid: int) -> bool:
        assert os.waitpid(pid, os.WNOHANG)[0] == 0, self._logged()
        try:
            # The broker refuses this before it examines anything.
            return send_request(self.socket, Request(verb="cancel", name="nobody")) is not None
        except ToolkitError:
            return True


class Person:
    """A user's process that sends a request, reports the answers, and lives until it is told to end."""

    def __init__(
        self,
        broker: Broker,
        uid: int,
        request: Request,
        *,
        timeout: float | None = None,
        groups: Sequence[int] = (),
        command: Sequence[str] = (),
        first: Callable[[], None] = lambda: None,
        is_patient: bool = False,
    ) -> None:
        """Send the request as a user after `first`; then execute `command`, if any, and report its output.

        A patient one asks again as long as nobody listens, as between two lives of a broker.
        """
        self.uid = uid
        self._socket = broker.socket
        self._command = command
        self._is_patient = is_patient
        reader, self._writer = os.pipe()
        self._end, end = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(reader)
            os.close(end)
            become(uid, groups)
            first()
            self._run(broker.socket, request, timeout)
        os.close(self._writer)
        os.close(self._end)
        self._reader, self._ending = reader, end
        self._is_closed = False
        self._text = ""

    def _run(self, path: str, request: Request, timeout: float | None) -> NoReturn:
        # On a busy machine, the broker may take long to answer.
        client.SILENT_SECONDS = client.FIRST_ANSWER_SECONDS = SECONDS

        def report(sentence: str) -> None:
            os.write(self._writer, f"{sentence}\n".encode())

        try:
            while not (answer := send_request(path, request, timeout=timeout, notify=report)) and self._is_patient:
                time.sleep(0.02)
            report(answer.message or f"got {answer.numbers}" if answer else "nobody listens")
            if answer and self._command:
                os.dup2(self._writer, 1)
                os.dup2(self._writer, 2)
                os.execvpe(self._command[0], list(self._command), {**os.environ, **answer.environment})
            os.read(self._end, 1)
        except ToolkitError as error:
            report(f"{error.exit_code}: {error}")
        except BaseException:
            report(traceback.format_exc())
        os._exit(0)

    def line(self) -> str:
        while "\n" not in self._text:
            ready = select.select([self._reader], [], [], SECONDS)[0]
            assert ready, f"{self.uid} is told nothing"
            if not (more := os.read(self._reader, 65536)):
                return ""
            self._text += more.decode()
        line, _, self._text = self._text.partition("\n")
        return without_time(line)

    def answer(self) -> str:
        """Return the next line except those about waiting, which are repeated whenever something changes."""
        while (line := self.line()).startswith("waiting"):
            pass
        return line

    def is_silent(self, seconds: float = 0.3) -> bool:
        return not self._text and not select.select([self._reader], [], [], seconds)[0]

    def end(self) -> None:
        os.write(self._ending, b"x")
        os.waitpid(self.pid, 0)
        self._close()

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid, number)
        if number == signal.SIGSTOP:
            # On a busy machine, a process runs on for a moment.
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)
            finish_poll(self._socket)

    def ended_by(self) -> int:
        """Wait for the end of the command, and return the signal that ended it."""
        status = os.waitpid(self.pid, 0)[1]
        self._close()
        return os.WTERMSIG(status)

    def close(self) -> None:
        if not self._is_closed:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
            self._close()

    def _close(self) -> None:
        self._is_closed = True
        os.close(self._reader)
        os.close(self._ending)


def without_time(line: str) -> str:
    """Replace the time since when others have the GPUs with noon, in a line for a waiting person."""
    return re.sub(r" since (\S+ )?\d\d:\d\d", " since 12:00", line)


def finish_poll(path: str) -> None:
    """Wait until the broker of a socket has finished its current poll. The next poll sees the present state."""
    assert is_served(path, SECONDS)


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def make_demand(count: int, fitting: int, *, name: str = "job", person: int = 1, **more: Any) -> Demand:
    """Return a request for `count` of the GPUs in the bit set `fitting`."""
    waiter = ProcessId(pid=1, start=1)
    return Demand(name=name, request="", count=count, fitting=fitting, waiter=waiter, person=person, **more)


def make_ticket(number: int, demand: Demand, **more: Any) -> Ticket:
    """Return the ticket of a request that waits under this number."""
    return Ticket(**demand.in_ticket(), number=number, since=0.0, boot_id="", namespace="", **more)


def put_ticket(
    host: Host,
    name: str,
    request: str,
    among: Sequence[int],
    *,
    pid: int = 0,
    owner: int | None = None,
) -> str:
    """Write a ticket at the end of the queue for a process, by default this one; return its path."""
    processes, tickets = Processes(), Tickets(State(host), Processes())
    waiter = processes.find(pid or os.getpid())
    assert waiter is not None
    ticket = Ticket(
        number=time.clock_gettime_ns(time.CLOCK_BOOTTIME),
        name=name,
        request=request,
        count=len(among),
        among=tuple(among),
        since=time.time(),
        waiter=waiter,
        boot_id=processes.boot_id,
        namespace=processes.namespace,
        owner=os.geteuid() if owner is None else owner,
    )
    os.makedirs(tickets.directory, exist_ok=True)
    path = f"{tickets.directory}/{ticket.stem}.json"
    with open(path, "wb") as file:
        file.write(format_ticket(ticket))
    return path


def restart_machine(host: Host, job: str, *, earlier: float = 0.0) -> None:
    """Leave the files of a reservation that a restart leaves, as if the restart was `earlier` seconds ago."""
    state = State(host)
    path = state.lease_path(("", job))
    lease = state.read_lease(path)
    assert lease is not None
    os.unlink(path)
    begun = open_path(state.history_directory, path)
    lease = lease.replace(boot_id="of-another-boot", boot_offset=lease.boot_offset - earlier)
    with open(begun, encoding="utf-8") as file:
        month = file.readline()
    with open(begun, "w", encoding="utf-8") as file:
        file.write(f"{month}{format_begun(lease)}\n")
    # A machine that has just started has no such file.
    with contextlib.suppress(FileNotFoundError):
        os.unlink(ended_path(state))


def run(name: str, gpus: str, *, wait: bool = True, **more: Any) -> Request:
    return Request(verb=RUN, name=name, gpus=gpus, wait=wait, **more)


def users(host: Host) -> dict[int, list[str]]:
    """Return the jobs of each GPU that has any."""
    found = {gpu.number: [use.container_id for use in gpu.containers] for gpu in Tracker(host).status().gpus}
    return {number: jobs for number, jobs in found.items() if jobs}
