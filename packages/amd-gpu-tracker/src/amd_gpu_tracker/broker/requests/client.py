"""Ask the broker: one request, and its answers until the last. It loads little, because a thousand may wait."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from amd_gpu_tracker.broker.requests.protocol import (
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

# systemd starts a broker that was killed again in a moment; one that is gone for longer was taken away.
PATIENCE_SECONDS = 20.0
AGAIN_SECONDS = 0.1
# How long it leaves a socket alone whose queue is full.
FULL_SECONDS = 0.01
# Who is told nothing gives up after its time and this, and a service that is there says at once what is waited for.
FIRST_WORD_SECONDS = 10.0
# Many times what systemd takes to start the service.
ANSWER_SECONDS = 10.0
# Many times an answer: what is longer is none.
MOST_BYTES = 16 * LARGEST_LINE
CODE_OF_TIME_OVER = 12


class Refused(ToolkitError):
    """What the broker refused, in its words and with its exit code."""

    def __init__(self, message: str, *, hint: str = "", exit_code: int = 1) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code


class ServiceGone(ToolkitError):
    """The broker was there and is not any more."""

    exit_code = 12


def is_answered(path: str) -> bool:
    """Return whether a process listens at a socket."""
    try:
        connect(path).close()
    except OSError:
        return False
    return True


def is_served(path: str, seconds: float = ANSWER_SECONDS) -> bool:
    """Return whether a process answers at a socket within some seconds, and does not only listen there."""
    end = time.monotonic() + seconds
    try:
        with connect(path, seconds) as connected:
            connected.settimeout(max(0.001, end - time.monotonic()))
            # That is no request, which is said, and nothing is done. Who is sent away was told why already.
            with suppress(BrokenPipeError):
                connected.sendall(b"\n")
            return bool(connected.recv(1))
    except OSError:
        return False


def ask(
    path: str,
    request: Request,
    *,
    timeout: float | None = None,
    tell: Callable[[str], None] = print,
    find_again: Callable[[], str] | None = None,
) -> Answer | None:
    """Return the last answer to a request, None where no process listens; Refused, ServiceGone.

    `tell` is called with what is waited for. A process that asks for GPUs connects again where the broker was started
    again: its place, and what it was given, are its own. Whether anything else was done cannot be told then.
    `find_again` returns where a process listens if none did at `path`.
    """
    since = time.monotonic()
    lost_at: float | None = None
    told = ""

    def tell_once(sentence: str) -> None:
        nonlocal told
        # A broker that was started again does not know what was told before.
        if sentence != told:
            tell(sentence)
        told = sentence

    while True:
        try:
            connected = connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            if lost_at is None and find_again is None:
                return None
            lost_at = time.monotonic() if lost_at is None else lost_at
        else:
            with connected:
                answer = _converse(connected, request, since, timeout, tell_once)
            if answer is not None:
                return answer
            lost_at = time.monotonic()
        if request.verb != RUN or time.monotonic() > (lost_at or 0.0) + PATIENCE_SECONDS:
            problem = "the service that gives out GPUs has stopped"
            raise ServiceGone(problem, hint="see 'amd-ctk queue list', and try again")
        time.sleep(AGAIN_SECONDS)
        path = find_again() if find_again else path


def connect(path: str, seconds: float | None = None) -> socket.socket:
    """Return a connection to the broker, for whose every step there are some seconds, None for as many as it takes.

    OSError.
    """
    directory, name = os.path.split(path)
    # A path of a socket has 107 bytes at most; that of a simulated host may be longer.
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
                # Many ask at once. A socket with a time limit is told so instead of waiting (unix(7), EAGAIN).
                if time.monotonic() >= until:
                    raise
                time.sleep(FULL_SECONDS)
    except BaseException:
        connected.close()
        raise
    finally:
        os.close(opened)
    return connected


def _converse(
    connected: socket.socket, request: Request, since: float, timeout: float | None, tell: Callable[[str], None]
) -> Answer | None:
    """Return the last answer, None where the connection ended before; Refused, also where the time is over."""
    try:
        # Who is sent away was told why already.
        with suppress(BrokenPipeError):
            connected.sendall(format_request(request))
        for answer in _read_answers(connected, request, since, timeout):
            message = with_names(answer)
            if answer.kind == REFUSED:
                raise Refused(message, hint=answer.hint, exit_code=answer.exit_code)
            if answer.kind != WAITING:
                return answer.replace(message=message)
            tell(message)
    except ConnectionResetError:
        return None
    return None


def _read_answers(connected: socket.socket, request: Request, since: float, timeout: float | None) -> Iterator[Answer]:
    rest = b""
    deadline = None if timeout is None else since + timeout
    # Who has no time gets what is free.
    until = None if deadline is None else max(deadline, time.monotonic() + FIRST_WORD_SECONDS)
    while True:
        connected.settimeout(None if until is None else max(0.001, until - time.monotonic()))
        try:
            more = connected.recv(LARGEST_LINE)
        except TimeoutError:
            from amd_gpu_tracker.times import format_seconds

            waited = format_seconds(time.monotonic() - since)
            problem = f"there was no GPU for {request.name} within {waited}"
            raise Refused(problem, exit_code=CODE_OF_TIME_OVER) from None
        until = deadline
        if not more:
            return
        *lines, rest = (rest + more).split(b"\n")
        if len(rest) > MOST_BYTES:
            raise ProtocolError("the service that gives out GPUs sent an answer that cannot be read")
        yield from map(parse_answer, lines)


def with_names(answer: Answer) -> str:
    """Return the message of an answer with the names of people."""
    if not answer.people:
        return answer.message
    # Most requests name no other user.
    from amd_gpu_tracker.errors import name_people
    from amdgpu_discovery.people import name_of_person, title_of_person

    return name_people(answer.message, answer.people, title_of_person if answer.kind == REFUSED else name_of_person)
