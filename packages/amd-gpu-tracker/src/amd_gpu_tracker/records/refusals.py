"""Remember the latest refusals, because some engines show a failed hook's exit code and not its words."""

from __future__ import annotations

import posix
import time

from amdgpu_discovery.errors import FileError
from amdgpu_discovery.files import append_to_file, read_file, replace_file
from amdgpu_discovery.plain_json import dumps, loads
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_gpu_tracker.records.state import State

# Halved when it grows beyond this.
LARGEST_BYTES = 64 * 1024


class Refusal(Value):
    """A container that was turned away.

    Attributes:
        time: When, in seconds since 1970 (UTC).
        container_id: Id of the container, or name of the reservation.
        ways: How it asked for GPUs: `env`, `swarm`, `cdi`, `device` or `api`.
        message: What it was told.
    """

    time: float
    container_id: str
    ways: tuple[str, ...]
    message: str


def record_refusal(state: State, *, container_id: str, ways: tuple[str, ...], message: str) -> None:
    """Write a refusal down if that is possible; the caller holds the lock and refuses in any case."""
    line = dumps({"time": time.time(), "container_id": container_id, "ways": list(ways), "message": message}) + b"\n"
    try:
        append_to_file(state.refusals_path, line)
        if posix.stat(state.refusals_path).st_size > LARGEST_BYTES:
            _forget_older_half(state.refusals_path)
    except (OSError, FileError):
        return


def read_refusals(state: State) -> list[Refusal]:
    """Return the refusals that are remembered, oldest first; a line that was cut off is passed over."""
    try:
        lines = read_file(state.refusals_path).splitlines()
    except OSError:
        return []
    return [refusal for refusal in (_parse(line) for line in lines) if refusal]


def _parse(line: bytes) -> Refusal | None:
    try:
        fields = loads(line)
        return Refusal(**{**fields, "time": float(fields["time"]), "ways": tuple(fields["ways"])})
    except (ValueError, TypeError, KeyError):
        return None


def _forget_older_half(path: str) -> None:
    lines = read_file(path).splitlines(keepends=True)
    replace_file(path, b"".join(lines[len(lines) // 2 :]), mode=0o644)
