"""Send one request to the broker and read its answers. Imports little, because a thousand clients may wait."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from amd_gpu_sharing.broker.requests.protocol import (
    LARGEST_LINE,
    REFUSED,
    RUN,
    WAITING,
    Answer,
    ProtocolError,
    Request,
    format_request,
    parse_answer,
)
from amdgpu_discovery.errors import ToolkitError

# systemd restarts a killed broker at once; one that stays away longer was removed.
RECONNECT_SECONDS = 20.0
RETRY_SECONDS = 0.1
# Pause before connecting again to a socket whose backlog is full.
BACKLOG_PAUSE_SECONDS = 0.01
# A client waits at least this long for its first answer, which a running service sends at once.
FIRST_ANSWER_SECONDS = 10.0
# Many times what systemd needs to start the service.
ANSWER_SECONDS = 10.0
# Many times the size of an answer; anything longer is invalid.
MOST_BYTES = 16 * LARGEST_LINE
TIMEOUT_EXIT_CODE = 12


class Refused(ToolkitError):
    """A refusal of the broker, with its message and exit code."""

    def __init__(self, message: str, *, hint: str = "", exit_code: int = 1) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code


class ServiceStopped(ToolkitError):
    """The broker has stopped."""

    exit_code = 12


def is_listening(path: str) -> bool:
    """Return whether a process listens at a socket."""
    try:
        connect(path).close()
    except OSError:
        return False
    return True


def is_served(path: str, seconds: float = ANSWER_SECONDS) -> bool:
    """Return whether a process at a socket answers within `seconds`, and does not only listen."""
    end = time.monotonic() + seconds
    try:
        with connect(path, seconds) as connected:
            connected.settimeout(max(0.001, end - time.monotonic()))
            # An empty line is refused, and does nothing. A client that was rejected has its answer already.
            with suppress(BrokenPipeError):
                connected.sendall(b"\n")
            return bool(connected.recv(1))
    except OSError:
        return False


def send_request(
    path: str,
    request: Request,
    *,
    timeout: float | None = None,
    notify: Callable[[str], None] = print,
    find_service: Callable[[], str] | None = None,
) -> Answer | None:
    """Return the last answer to a request, None if no process listens; Refused, ServiceStopped.

    `notify` gets each message about the wait. If the broker restarts, a client that runs a job reconnects: its place
    and its GPUs remain its own. For other requests it is then unknown whether the broker carried them out.
    `find_service` returns the socket of a process that listens if none did at `path`.
    """
    since = time.monotonic()
    lost_at: float | None = None
    last_message = ""

    def notify_once(message: str) -> None:
        nonlocal last_message
        # A restarted broker does not know what it sent before.
        if message != last_message:
            notify(message)
        last_message = message

    while True:
        try:
            connected = connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            if lost_at is None and find_service is None:
                return None
            lost_at = time.monotonic() if lost_at is None else lost_at
        else:
            with connected:
                answer = _exchange(connected, request, since, timeout, notify_once)
            if answer is not None:
                return answer
            lost_at = time.monotonic()
        if request.verb != RUN or time.monotonic() > (lost_at or 0.0) + RECONNECT_SECONDS:
            problem = "the service that gives out GPUs has stopped"
            raise ServiceStopped(problem, hint="see 'amd-ctk queue list', and try again")
        time.sleep(RETRY_SECONDS)
        path = find_service() if find_service else path


def connect(path: str, seconds: float | None = None) -> socket.socket:
    """Return a connection to the broker. Each step may take `seconds`; None means no time limit. OSError."""
    directory, name = os.path.split(path)
    # A socket path is limited to 107 bytes, and the path on a simulated host may be longer.
    opened = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connected.settimeout(seconds)
    until = time.monotonic() + (seconds or 0)
    try:
        while True:
            try:
                connected.connect(f"/proc/self/fd/{opened}/{name}")
                break
            except BlockingIOError:
                # The backlog is full. A socket with a time limit gets EAGAIN at once instead of waiting (unix(7)).
                if time.monotonic() >= until:
                    raise
                time.sleep(BACKLOG_PAUSE_SECONDS)
    except BaseException:
        connected.close()
        raise
    finally:
        os.close(opened)
    return connected


def _exchange(
    connected: socket.socket, request: Request, since: float, timeout: float | None, notify: Callable[[str], None]
) -> Answer | None:
    """Return the last answer, None if the connection ended before it; Refused, also when the time limit is reached."""
    try:
        # A client that was rejected has an answer already.
        with suppress(BrokenPipeError):
            connected.sendall(format_request(request))
        for answer in _read_answers(connected, request, since, timeout):
            message = with_names(answer)
            if answer.kind == REFUSED:
                raise Refused(message, hint=answer.hint, exit_code=answer.exit_code)
            if answer.kind != WAITING:
                return answer.replace(message=message)
            notify(message)
    except ConnectionResetError:
        return None
    return None


def _read_answers(connected: socket.socket, request: Request, since: float, timeout: float | None) -> Iterator[Answer]:
    rest = b""
    deadline = None if timeout is None else since + timeout
    # Even a client with a time limit of 0 gets GPUs that are free.
    until = None if deadline is None else max(deadline, time.monotonic() + FIRST_ANSWER_SECONDS)
    while True:
        connected.settimeout(None if until is None else max(0.001, until - time.monotonic()))
        try:
            more = connected.recv(LARGEST_LINE)
        except TimeoutError:
            from amd_gpu_tracker.times import format_seconds

            waited = format_seconds(time.monotonic() - since)
            problem = f"there was no GPU for {request.name} within {waited}"
            raise Refused(problem, exit_code=TIMEOUT_EXIT_CODE) from None
        until = deadline
        if not more:
            return
        *lines, rest = (rest + more).split(b"\n")
        if len(rest) > MOST_BYTES:
            raise ProtocolError("the service that gives out GPUs sent an answer that cannot be read")
        yield from map(parse_answer, lines)


def with_names(answer: Answer) -> str:
    """Return the message of an answer with the names of users in it."""
    if not answer.people:
        return answer.message
    # Imported here, because most answers name no other user.
    from amd_gpu_tracker.errors import name_people
    from amdgpu_discovery.people import name_of_person, title_of_person

    return name_people(answer.message, answer.people, title_of_person if answer.kind == REFUSED else name_of_person)
