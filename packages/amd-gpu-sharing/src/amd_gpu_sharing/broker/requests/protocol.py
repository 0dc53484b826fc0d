"""The protocol between clients and the broker: one JSON object a line.

A connection carries one request and its answers. The client sends one line. `waiting` may come many times; `granted`,
`done` or `refused` is the last.
"""

from __future__ import annotations

import os

from amd_gpu_tracker.errors import Message, PeopleNamed
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.untrusted.plain_json import dumps, loads
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from amdgpu_discovery.choices.grammar import Choice
    from amdgpu_discovery.choices.rules import ChoiceRules
    from amdgpu_discovery.host import Host

VERSION = 1
# The socket. In packages, systemd makes it.
SOCKET = "/run/amd-container-toolkit/gpus.socket"
SERVICE_UNIT = "amd-gpu-tracker.service"
LARGEST_LINE = 4096
LONGEST_GPU_REQUEST = 1024
LONGEST_JOB_NAME = 64
# The limit of a message in an answer: the line also holds the hint and JSON's escapes.
LONGEST_ANSWER_MESSAGE = 500
# The longest time for which users can reserve GPUs.
LONGEST_RESERVATION = 30 * 86400
MOST_REQUESTED_GPUS = 1024
LARGEST_UID = (1 << 32) - 2

RUN = "run"
PREVIEW = "preview"
RESERVE = "reserve"
RELEASE = "release"
CANCEL = "cancel"
KEEP = "keep"
END = "end"
FIRST = "first"
# Verbs that ask for GPUs.
FOR_GPUS = (RUN, PREVIEW, RESERVE)
VERBS = (*FOR_GPUS, RELEASE, CANCEL, KEEP, END, FIRST)

WAITING = "waiting"
GRANTED = "granted"
DONE = "done"
REFUSED = "refused"

SAME_VERSION = "install the same version on both sides, and restart the service"


class ProtocolError(ToolkitError):
    """A line that is not a request or an answer."""

    exit_code = 2


class Request(Value):
    """A client's request.

    Attributes:
        verb: `run` (GPUs for the asking process), `preview` (what it would get now), `reserve` (for later), `release`,
            `cancel`, `keep` (for longer), `end`, `first` (put a waiting job before all others).
        name: Name of the job or reservation.
        gpus: Which GPUs, as in AMD_VISIBLE_DEVICES.
        wait: Whether to wait in line.
        seconds: How long a reservation lasts; for `keep`, from now.
        reservation: Name of the reservation in which a job is to run; "" for none.
        numbers: The GPUs that the request may mean, such as those of a batch job; None for all.
        owner: Whose job or reservation is meant; only root may name another user.
        behind: The user who became root by sudo, as root's client reports; ignored from other users.
        rules: A program's own rules for choices, from `format_rules`; only the service's stand-in reads them.
        spare: Whether it wants GPUs only until another job waits for them; None for no, which older services accept.
        start: When a reservation begins, in seconds since 1970 (UTC); None for now.
        vram_mb: How much memory of each GPU it wants, in MiB; None for whole GPUs.
    """

    verb: str = ""
    name: str
    gpus: str = ""
    wait: bool = False
    seconds: int = 0
    reservation: str = ""
    numbers: tuple[int, ...] | None = None
    owner: int | None = None
    behind: int | None = None
    rules: dict[str, Any] | None = None
    spare: bool | None = None
    start: float | None = None
    vram_mb: int | None = None


class Answer(Value):
    """An answer of the broker.

    Attributes:
        kind: `waiting`, `granted`, `done` or `refused`; "" if no service answered.
        message: The text for the user; in a preview without GPUs, what the job would wait for.
        hint: What to do next; "" for nothing.
        exit_code: The exit code of a client that is refused.
        numbers: The GPUs that were granted.
        environment: The variables that make a program use these GPUs.
        seconds: The time limit; 0 for none.
        people: Users in the message, where `{1000}` stands for the name of user 1000. The client looks names up.
    """

    kind: str = ""
    message: str = ""
    hint: str = ""
    exit_code: int = 0
    numbers: tuple[int, ...] = ()
    environment: dict[str, str] = {}  # noqa: RUF012 - values are immutable, and it is never changed
    seconds: int = 0
    people: tuple[int, ...] = ()


def find_socket(host: Host) -> str:
    """Return the path of the broker's socket, "" if there is none."""
    path = host.path(SOCKET)
    return path if os.path.exists(path) else ""


def format_request(request: Request) -> bytes:
    """Return a request as a line; ProtocolError if it is too long."""
    # A service of an earlier version knows fewer fields.
    fields = {name: value for name, value in request.as_dict().items() if value is not None}
    line = dumps({"version": VERSION, **fields}) + b"\n"
    if len(line) > LARGEST_LINE:
        raise ProtocolError("the request is too long")
    return line


def parse_request(line: bytes) -> Request:
    """Parse a request; ProtocolError for everything that `format_request` does not write."""
    request: Request = _parse(line, Request)
    _require_numbers(request.numbers or ())
    if not _is_sound(request):
        raise ProtocolError("the request cannot be understood")
    return request


def format_answer(answer: Answer) -> bytes:
    """Return an answer as a line; texts that are too long are cut off."""
    cut = answer.replace(message=answer.message[:LONGEST_ANSWER_MESSAGE], hint=answer.hint[:LONGEST_ANSWER_MESSAGE])
    return dumps({"version": VERSION, **cut.as_dict()}) + b"\n"


def parse_answer(line: bytes) -> Answer:
    """Parse an answer; ProtocolError if it is none."""
    answer: Answer = _parse(line, Answer)
    if not answer.kind:
        raise ProtocolError("the answer cannot be understood")
    _require_numbers(answer.numbers)
    return answer


def refusal(error: ToolkitError) -> Answer:
    """Return the answer for an expected failure."""
    message = error.unnamed if isinstance(error, PeopleNamed) else Message(text=error.message)
    return Answer(kind=REFUSED, message=message.text, people=message.people, hint=error.hint, exit_code=error.exit_code)


def format_rules(rules: ChoiceRules, choice: Choice | None) -> dict[str, Any]:
    """Return the rules as a client sends them: without numbers, and only with groups that its choice names."""
    named = {each.value for each in choice.conditions} if choice else set()
    groups = {name: request for name, request in rules.groups.items() if name in named}
    return {**rules.as_dict(), "groups": groups, "limits": rules.limits.as_dict(), "numbers": None}


def parse_rules(fields: dict[str, Any], numbers: tuple[int, ...] | None) -> ChoiceRules:
    """Return the rules that a client sent; ProtocolError if they are invalid."""
    # Imported here, because waiting clients do not need them.
    from amdgpu_discovery.choices.rules import ChoiceRules
    from amdgpu_discovery.health.limits import HealthLimits

    try:
        return ChoiceRules.from_json(fields, {"HealthLimits": HealthLimits}).replace(numbers=numbers)
    except (RecursionError, ValueError) as error:
        raise ProtocolError("the rules cannot be understood") from error


def _parse(line: bytes, kind: type[Any]) -> Any:
    try:
        fields = loads(line)
    except (RecursionError, ValueError) as error:
        raise ProtocolError("the line is not JSON") from error
    if type(fields) is not dict:
        raise ProtocolError("the line is not an object")
    if fields.pop("version", None) != VERSION:
        raise ProtocolError(f"this is not version {VERSION} of the protocol", hint=SAME_VERSION)
    if not fields.keys() <= kind.fields().keys():
        raise ProtocolError("the line has unexpected fields", hint=SAME_VERSION)
    try:
        return kind.from_json(fields)
    except (RecursionError, ValueError) as error:
        raise ProtocolError(f"the {kind.__name__.lower()} cannot be understood") from error


def _require_numbers(numbers: tuple[int, ...]) -> None:
    if len(numbers) > MOST_REQUESTED_GPUS or not all(0 <= number < MOST_REQUESTED_GPUS for number in numbers):
        raise ProtocolError("the numbers of GPUs cannot be understood")


def _is_sound(request: Request) -> bool:
    texts = (request.verb, request.name, request.gpus, request.reservation)
    if not all(text.isprintable() for text in texts):
        return False
    if not all(uid is None or 0 <= uid <= LARGEST_UID for uid in (request.owner, request.behind)):
        return False
    is_short = (
        len(request.gpus) <= LONGEST_GPU_REQUEST
        and max(len(request.name), len(request.reservation)) <= LONGEST_JOB_NAME
    )
    # Clients need neither this nor what it loads.
    from amd_gpu_tracker.book.lease import LARGEST_ID, NEVER

    is_timed = 0 <= request.seconds <= LONGEST_RESERVATION and 0 <= (request.start or 0) < NEVER
    return is_short and is_timed and 0 <= (request.vram_mb or 0) <= LARGEST_ID and request.verb in VERBS
