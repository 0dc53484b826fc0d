"""Remember the latest refusals, because some engines show a failed hook's exit code and not its words."""

from __future__ import annotations

import os
import time

from amdgpu_discovery.errors import FileError
from amdgpu_discovery.files import replace_file
from amdgpu_discovery.plain_json import dumps, loads
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_gpu_tracker.state import State

# Halved when it grows beyond this.
LARGEST_BYTES = 64 * 1024


class Refusal(Value):
    """A container that was turned away: when, by which ways it came, and what it was told."""

    time: float
    container_id: str
    ways: tuple[str, ...]
    message: str


def record_refusal(state: State, *, container_id: str, ways: tuple[str, ...], message: str) -> None:
    """Write a refusal down if that is possible; the caller holds the lock and refuses in any case."""
    line = dumps({"time": time.time(), "container_id": container_id, "ways": list(ways), "message": message}) + b"\n"
    try:
        descriptor = os.open(state.refusals_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.write(descriptor, line)
            size = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        if size > LARGEST_BYTES:
            _forget_older_half(state.refusals_path)
    except (OSError, FileError):
        return


def read_refusals(state: State) -> list[Refusal]:
    """Return the refusals that are remembered, oldest first; a line that was cut off is passed over."""
    try:
        with open(state.refusals_path, "rb") as file:
            lines = file.read().splitlines()
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
    with open(path, "rb") as file:
        lines = file.read().splitlines(keepends=True)
    replace_file(path, b"".join(lines[len(lines) // 2 :]), mode=0o644)
