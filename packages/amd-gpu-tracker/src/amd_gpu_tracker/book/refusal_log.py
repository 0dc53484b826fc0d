"""Remember the latest refusals, because some engines show a failed hook's exit code but not its message."""

from __future__ import annotations

import posix
import time

from amd_gpu_tracker.book.lease import NEVER
from amd_gpu_tracker.book.state import REFUSALS, State
from amd_gpu_tracker.errors import Message
from amdgpu_discovery.errors import FileError
from amdgpu_discovery.files import append_to_file, replace_file
from amdgpu_discovery.untrusted.plain_files import read_plain_file
from amdgpu_discovery.untrusted.plain_json import dumps, loads
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


# The file is halved when it grows beyond this.
LARGEST_REFUSALS_FILE = 64 * 1024
# Enough for a host with 64 GPUs and a sentence about each of them, and for an id that runc accepts.
LONGEST_REFUSAL = 16 * 1024
LONGEST_CONTAINER_ID = 1024
MOST_PEOPLE = 64


class Refusal(Value):
    """A refused claim.

    Attributes:
        time: When, in seconds since 1970 (UTC).
        container_id: Id of the container, or name of the reservation.
        ways: How it asked for GPUs: `env`, `swarm`, `cdi`, `device` or `api`.
        message: The error message, with people by number.
        template: The text of the `Message`, with a placeholder for each of the people; "" without people.
        people: Users that it mentions.
    """

    time: float
    container_id: str
    ways: tuple[str, ...]
    message: str
    template: str = ""
    people: tuple[int, ...] = ()

    def told(self, name_of: Callable[[int], str]) -> str:
        """Return the message with the names of people, from `name_of`."""
        return Message(text=self.template or self.message, people=self.people).told(name_of)


def record_refusal(state: State, *, container_id: str, ways: tuple[str, ...], message: Message) -> None:
    """Record a refusal if possible; the caller holds the lock and refuses in any case."""
    state.count(REFUSALS)
    words: dict[str, object] = {
        "container_id": container_id[:LONGEST_CONTAINER_ID],
        "ways": list(ways),
        "message": str(message)[:LONGEST_REFUSAL],
    }
    if message.people:
        words |= {"template": message.text[:LONGEST_REFUSAL], "people": list(message.people[:MOST_PEOPLE])}
    line = dumps({"time": time.time(), **words}) + b"\n"
    try:
        append_to_file(state.refusals_path, line)
        if posix.stat(state.refusals_path).st_size > LARGEST_REFUSALS_FILE:
            lines = read_plain_file(state.refusals_path)[0].splitlines(keepends=True)
            replace_file(state.refusals_path, b"".join(lines[len(lines) // 2 :]), mode=0o644)
    except (OSError, FileError):
        return


def read_refusals(state: State) -> list[Refusal]:
    """Return the remembered refusals, oldest first, without lines that were cut off."""
    try:
        lines = read_plain_file(state.refusals_path)[0].splitlines()
    except OSError:
        return []
    return [refusal for refusal in (_parse(line) for line in lines) if refusal]


def _parse(line: bytes) -> Refusal | None:
    try:
        refusal = Refusal.from_json(loads(line))
    except (RecursionError, ValueError):
        return None
    return refusal.replace(people=refusal.people[:MOST_PEOPLE]) if 0 <= refusal.time < NEVER else None
