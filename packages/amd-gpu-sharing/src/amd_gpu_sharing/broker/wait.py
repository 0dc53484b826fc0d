"""Wait for GPUs as a program: at root's service, or at a process that stands in for it while one user's jobs wait.

The first waiting job does the work of systemd: it makes the socket and starts the process. The process is an orphan
with its own session, so that neither Ctrl-Z nor the end of a job stops the queue. If it is killed, the next waiting job
starts it again. Tickets and leases are on disk.
"""

from __future__ import annotations

import fcntl
import os
import sys
from contextlib import suppress
from functools import partial

from amd_gpu_sharing.broker.requests.client import Refused, is_listening, send_request
from amd_gpu_sharing.broker.requests.protocol import RUN, Answer, Request, find_socket, format_rules
from amd_gpu_sharing.tickets import Tickets
from amd_gpu_tracker.book.job_ids import require_name
from amd_gpu_tracker.claims.by_name import find_wanted, hold_by_name, is_contested
from amd_gpu_tracker.claims.choice import only_for_root
from amd_gpu_tracker.claims.decision import LET_USERS, rootless_refusal
from amd_gpu_tracker.claims.handover import Reservation
from amd_gpu_tracker.errors import (
    ContainerRunning,
    GpusRefused,
    LockTimeout,
    TrackerDisabled,
    WaitOver,
    WaitRefused,
    needs_root,
)
from amd_gpu_tracker.leases.liveness import judge
from amdgpu_discovery.errors import FileError, RequestError, ToolkitError, reason
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.usage.people import behind_sudo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from amd_gpu_tracker.book.state import State
    from amd_gpu_tracker.claims.claim import Book
    from amd_gpu_tracker.leases.processes import Processes
    from amdgpu_discovery.choices.grammar import Choice
    from amdgpu_discovery.choices.rules import ChoiceRules

# The service's refusals carry only an exit code. These are the classes that a caller can tell apart.
ERROR_BY_EXIT_CODE = {kind.exit_code: kind for kind in (ContainerRunning, WaitOver, WaitRefused)}
SOCKET_NAME = "waiting.socket"
# The starting job takes this lock, and the process that it starts inherits it.
LOCK_NAME = "waiting.lock"
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stand_in.py")


def wait_in_line(
    book: Book,
    name: str,
    request: str,
    rules: ChoiceRules,
    *,
    timeout: float | None,
    notify: Callable[[str], None],
    release: Callable[[str], object],
    vram_mb: int = 0,
) -> Reservation:
    """Reserve GPUs when it is this job's turn, at once if no job waits; `release` gives them back.

    Errors as `Tracker.wait`.
    """
    state, processes = book.state, book.processes
    require_name(name)
    choice, wanted = require_possible(state, request, rules, vram_mb)
    # A user's own queue promises no parts of GPUs, and may be served by an earlier version, which does not know them.
    part_mb = 0 if state.is_rootless else vram_mb
    gpus = f"{choice.text}+vram:{vram_mb}MiB" if choice and vram_mb > part_mb else request
    state.prepare()
    tickets = Tickets(state, processes)
    _require_free_name(state, name, processes, tickets)
    if not is_contested(state.read_policy(), choice, wanted, part_mb) or not tickets.stems():
        # If the GPUs are in use or another process keeps the lock, the job waits in line.
        with suppress(GpusRefused, LockTimeout):
            return hold_by_name(book, name, request, rules=rules, release=release, is_waiting=True, vram_mb=vram_mb)
    fields = format_rules(rules, choice)
    behind = behind_sudo(os.environ)
    run = Request(
        verb=RUN,
        name=name,
        gpus=gpus,
        wait=True,
        numbers=rules.numbers,
        rules=fields,
        behind=behind,
        vram_mb=part_mb or None,
    )
    try:
        answer = _send_request(state, processes, run, timeout, notify)
    except BaseException:
        with suppress(ToolkitError):
            _give_up(name, tickets, processes)
            # The service may have granted the GPUs at this moment.
            release(name)
        raise
    given = [gpu for gpu in locate_gpus(state.host) if gpu.number in answer.numbers]
    return Reservation(name, given, dict(answer.environment), release=release)


def _give_up(name: str, tickets: Tickets, processes: Processes) -> None:
    """Drop this process's ticket. The service would do so in a moment, but the name has to be free now."""
    for ticket in tickets.named(name):
        if ticket.waiter == processes.myself():
            tickets.drop(ticket)


def _send_request(
    state: State, processes: Processes, request: Request, timeout: float | None, notify: Callable[[str], None]
) -> Answer:
    find = partial(_find_service, state, processes)
    try:
        answer = send_request(find(), request, timeout=timeout, notify=notify, find_service=find)
    except Refused as error:
        if error.exit_code == TrackerDisabled.exit_code and not state.read_policy().enabled:
            raise TrackerDisabled from None
        raise ERROR_BY_EXIT_CODE.get(error.exit_code, ToolkitError)(error.message, hint=error.hint) from None
    if answer is None:
        raise AssertionError("a client that finds the service again gets an answer")
    return answer


def require_possible(
    state: State, request: str, rules: ChoiceRules, vram_mb: int = 0
) -> tuple[Choice | None, Sequence[Any]]:
    """Return the choice and the fitting GPUs as `find_wanted` does; raise errors that waiting cannot change."""
    policy = state.read_policy()
    if not policy.enabled:
        raise TrackerDisabled
    choice, wanted = find_wanted(state.host, request, rules, vram_mb)
    if not wanted:
        raise RequestError("the request names no GPU to wait for", hint="name GPUs, or say how many")
    exclusive: list[Any] = list(policy.exclusive_among(wanted)) if state.is_rootless else []
    never = only_for_root(choice, wanted, exclusive) if choice else ""
    if exclusive and (never or not choice):
        raise GpusRefused(never, hint=LET_USERS) if never else rootless_refusal([gpu.number for gpu in exclusive])
    return choice, wanted


def _require_free_name(state: State, name: str, processes: Processes, tickets: Tickets) -> None:
    """Raise ContainerRunning if a job of this name runs or waits: an error now is better than after the wait."""
    lease = state.read_lease(state.lease_path(("", name)))
    if lease is not None and judge(lease, processes).is_alive:
        raise ContainerRunning(f"{name} already has GPUs", hint="give each reservation its own name")
    if any(ticket.owner == os.geteuid() for ticket in tickets.named(name)):
        raise ContainerRunning(f"a job {name} is already waiting", hint="give each job its own name")


def _find_service(state: State, processes: Processes) -> str:
    """Return the socket to wait at: root's service if it listens, else a process of the user, started if needed.

    FileError if no process can be started. The listening process may end a moment later.
    """
    socket = "" if os.geteuid() else find_socket(state.host)
    if socket and is_listening(socket):
        return socket
    path = f"{state.run_directory}/{SOCKET_NAME}"
    if not is_listening(path):
        _start(state, path, processes)
    return path


def _start(state: State, path: str, processes: Processes) -> None:
    """Start the process that listens, unless another waiting job is starting it."""
    from amd_gpu_sharing.broker.serve import ONLY_OWNER, listen

    lock_path = f"{state.run_directory}/{LOCK_NAME}"
    try:
        lock = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except PermissionError as error:
        raise needs_root() from error
    except OSError as error:
        raise FileError(f"{lock_path} cannot be opened: {reason(error)}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with listen(path, ONLY_OWNER) as listener:
            _start_process((state.host.root, processes.directory), listener.fileno(), lock)
    except BlockingIOError:
        return
    finally:
        os.close(lock)


def _start_process(directories: tuple[str, ...], listener: int, lock: int) -> None:
    import subprocess

    paths = [os.path.abspath(path) for path in sys.path]
    command = [sys.executable, "-I", PROGRAM, *directories, str(listener), *paths]
    quiet = subprocess.DEVNULL
    try:
        subprocess.call(
            command, stdin=quiet, stdout=quiet, stderr=quiet, cwd="/", pass_fds=(listener, lock), start_new_session=True
        )
    except OSError as error:
        raise FileError(f"{sys.executable} cannot be run: {reason(error)}") from error
