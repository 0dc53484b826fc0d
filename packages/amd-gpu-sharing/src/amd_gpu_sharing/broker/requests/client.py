"""Send one request to the broker and read its answers. Imports little, because a thousand clients may wait."""

from __future__ import annotations

import os
import sys
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
from amd_gpu_tracker.errors import Message
from amdgpu_discovery.errors import ToolkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

# systemd restarts a killed broker at once; one that stays away longer was removed.
RECONNECT_SECONDS = 20.0
CONNECT_RETRY_SECONDS = 0.1
# Pause before connecting again to a socket whose backlog is full.
BACKLOG_PAUSE_SECONDS = 0.01
# A client waits at least this long for its first answer, which a running service sends at once; without `wait`, no
# longer.
FIRST_ANSWER_SECONDS = 10.0
# After this time without an answer, a client says what it waits for.
SILENT_SECONDS = 2.0
# Many times what systemd needs to start the service.
ANSWER_SECONDS = 10.0
# A request that ends the service is not sent a third time: each makes systemd's limit of starts come nearer.
MOST_DEATHS = 2
# Many times the size of an answer; anything longer is invalid.
LARGEST_BROKER_ANSWER = 16 * LARGEST_LINE
TIMEOUT_EXIT_CODE = 12


class Refused(ToolkitError):
    """A refusal of the broker, with its message and exit code."""

    def __init__(self, message: str, *, hint: str = "", exit_code: int = 1) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code


class ServiceStopped(ToolkitError):
    """The broker has stopped."""

    exit_code = 12


class ServiceSilent(ToolkitError):
    """The broker accepts connections, or ends them, and answers nothing."""

    exit_code = 14


class ServiceFailed(ToolkitError):
    """Systemd starts the broker no more, because it ended too often; or it ended twice while it read one request."""

    exit_code = 14


class Silence:
    """How long a client has had no answer that it expects; `notify` is called once in each such time."""

    def __init__(self, request: Request, notify: Callable[[str], None]) -> None:
        """Expect the answer to a request from now on."""
        self._request = request
        self.notify = notify
        self._since: float | None = time.monotonic()
        self._is_told = False
        self._was_answered = False
        # How often the service ended while it read this request. One that was answered before, and waits, is sound.
        self.deaths = 0

    def end(self) -> None:
        """Expect nothing more: the answer has come, and says that the job waits, or what it got."""
        self._since, self._is_told, self._was_answered = None, False, True

    def note_death(self) -> None:
        """Note that the service read the request, and ended."""
        self.deaths += not self._was_answered

    def begin(self) -> None:
        """Expect an answer again, because the connection ended."""
        self._since = time.monotonic() if self._since is None else self._since

    @property
    def seconds(self) -> float:
        """Return how long it has lasted."""
        return 0.0 if self._since is None else time.monotonic() - self._since

    @property
    def left(self) -> float | None:
        """Return the seconds until `check` has to be called; None if no answer is expected."""
        if self._since is None or (self._is_told and self._request.wait):
            return None
        return max(0.001, (FIRST_ANSWER_SECONDS if self._is_told else SILENT_SECONDS) - self.seconds)

    def check(self) -> None:
        """Say that there is no answer; ServiceSilent if it is too late for one."""
        if self.seconds >= SILENT_SECONDS and not self._is_told:
            self._is_told = True
            self.notify("the service that gives out GPUs does not answer; waiting for it")
        if self.seconds >= FIRST_ANSWER_SECONDS and not self._request.wait:
            raise _silent(self.seconds)


def _silent(seconds: float) -> ServiceSilent:
    from amd_gpu_tracker.times import format_seconds

    said = f"the service that gives out GPUs did not answer within {format_seconds(seconds)}"
    return ServiceSilent(said, hint="'systemctl status amd-gpu-tracker' says why")


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
        # Most hosts have none, and need no `socket`.
        os.stat(path)
        with connect(path, seconds) as connected:
            connected.settimeout(max(0.001, end - time.monotonic()))
            # An empty line is refused, and does nothing. A client that was rejected has its answer already.
            with suppress(BrokenPipeError):
                connected.sendall(b"\n")
            return bool(connected.recv(1))
    except OSError:
        return False


def _print_note(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def send_request(
    path: str,
    request: Request,
    *,
    timeout: float | None = None,
    notify: Callable[[str], None] = _print_note,
    find_service: Callable[[], str] | None = None,
) -> Answer | None:
    """Return the last answer to a request, None if no process listens; Refused, ServiceSilent, ServiceStopped.

    `notify` gets each message about the wait. If the broker restarts, a client that runs a job or waits reconnects: its
    place and its GPUs remain its own. For other requests it is then unknown whether the broker carried them out.
    `find_service` returns the socket of a process that listens if none did at `path`.
    """
    since = time.monotonic()
    last_message = ""

    def notify_once(message: str) -> None:
        nonlocal last_message
        # A restarted broker does not know what it sent before.
        if message != last_message:
            notify(message)
        last_message = message

    silence = Silence(request, notify_once)
    was_there = False
    while True:
        try:
            connected = connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            if not was_there and find_service is None:
                return None
        else:
            was_there = True
            with connected:
                answer = _exchange(connected, request, since, timeout, silence)
            if answer is not None:
                return answer
        silence.begin()
        silence.check()
        if silence.deaths >= MOST_DEATHS and find_service is None:
            problem = "the service that gives out GPUs ended twice while it read this request"
            raise ServiceFailed(problem, hint="'journalctl -u amd-gpu-tracker' says why")
        if not (request.verb == RUN or request.wait) or silence.seconds > RECONNECT_SECONDS:
            problem = "the service that gives out GPUs has stopped"
            raise ServiceStopped(problem, hint="see 'amd-ctk queue', and try again")
        time.sleep(CONNECT_RETRY_SECONDS)
        path = find_service() if find_service else path


def connect(path: str, seconds: float | None = None) -> socket.socket:
    """Return a connection to the broker. Each step may take `seconds`; None means no time limit. OSError."""
    directory, name = os.path.split(path)
    # A socket path is limited to 107 bytes, and the path on a simulated host may be longer.
    opened = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    # Imported here, because most hosts have no broker.
    import socket

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
    connected: socket.socket,
    request: Request,
    since: float,
    timeout: float | None,
    silence: Silence,
) -> Answer | None:
    """Return the last answer, None if the connection ended before it; Refused, also when the time limit is reached."""
    try:
        # A client that was rejected has an answer already.
        with suppress(BrokenPipeError):
            connected.sendall(format_request(request))
        for answer in _read_answers(connected, request, since, timeout, silence):
            message = with_names(answer)
            if answer.kind == REFUSED:
                raise Refused(message, hint=answer.hint, exit_code=answer.exit_code)
            if answer.kind != WAITING:
                return answer.replace(message=message)
            silence.notify(message)
        silence.note_death()
    except ConnectionResetError:
        return None
    return None


def _read_answers(
    connected: socket.socket, request: Request, since: float, timeout: float | None, silence: Silence
) -> Iterator[Answer]:
    rest = b""
    deadline = None if timeout is None else since + timeout
    # Even a client with a time limit of 0 gets GPUs that are free.
    until = None if deadline is None else max(deadline, time.monotonic() + FIRST_ANSWER_SECONDS)
    while True:
        left = None if until is None else max(0.001, until - time.monotonic())
        connected.settimeout(min((each for each in (left, silence.left) if each is not None), default=None))
        try:
            more = connected.recv(LARGEST_LINE)
        except TimeoutError:
            silence.check()
            if until is not None and time.monotonic() >= until:
                raise _too_late(request, since, silence) from None
            continue
        until = deadline
        if not more:
            return
        silence.end()
        *lines, rest = (rest + more).split(b"\n")
        if len(rest) > LARGEST_BROKER_ANSWER:
            raise ProtocolError("the service that gives out GPUs sent an answer that cannot be read")
        yield from map(parse_answer, lines)


def _too_late(request: Request, since: float, silence: Silence) -> ToolkitError:
    """Return why a wait ends: there was no GPU in time, or the service never said so."""
    from amd_gpu_tracker.times import format_seconds

    if silence.seconds:
        return _silent(silence.seconds)
    waited = format_seconds(time.monotonic() - since)
    return Refused(f"there was no GPU for {request.name} within {waited}", exit_code=TIMEOUT_EXIT_CODE)


def with_names(answer: Answer) -> str:
    """Return the message of an answer with the names of users in it."""
    if not answer.people:
        return answer.message
    # Imported here, because most answers name no other user.
    from amdgpu_discovery.usage.people import name_of_person, title_of_person

    message = Message(text=answer.message, people=answer.people)
    return message.told(title_of_person if answer.kind == REFUSED else name_of_person)
