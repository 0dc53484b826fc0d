"""What people used lately, in GPU-seconds, in a file beside the leases, so that a new broker knows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from amd_gpu_tracker.book.lease import NEVER
from amd_gpu_tracker.book.state import State
from amdgpu_discovery.errors import FileError
from amdgpu_discovery.files import replace_file
from amdgpu_discovery.untrusted.plain_files import read_plain_file
from amdgpu_discovery.untrusted.plain_json import dumps, loads
from amdgpu_discovery.value import Value

# Use counts half after this time.
HALF_LIFE_SECONDS = 6 * 3600.0
# A killed broker loses at most this much time.
SAVE_SECONDS = 5.0


class Counted(Value):
    """The content of the file: the time of the last count, in seconds since boot, and the use until then."""

    at: float
    used: dict[int, float]


class RecentUse:
    """GPU-seconds by person."""

    def __init__(self, state: State, now: Callable[[], float]) -> None:
        """Continue from the file of a host; `now` returns seconds since boot."""
        self._now = now
        self._path = f"{state.run_directory}/used.json"
        counted = _read(self._path, now())
        # The time of the last count, by this broker and by one before.
        self._at = self.counted_before = counted.at
        self.by_person: Mapping[int, float] = counted.used
        self._saved_at = 0.0
        self._holding: dict[int, int] | None = None

    def count(self, holding: Mapping[int, int]) -> None:
        """Count the time since the last call. From now on, persons hold as many GPUs as `holding` says."""
        now = self._now()
        before = dict(holding) if self._holding is None else self._holding
        self.by_person = with_use(self.by_person, before, now - self._at)
        is_new = before != holding
        self._at, self._holding = now, dict(holding)
        if is_new or now > self._saved_at + SAVE_SECONDS:
            self._save(now)

    def _save(self, now: float) -> None:
        self._saved_at = now
        used = {str(person): amount for person, amount in self.by_person.items()}
        # A full disk must not keep users from GPUs.
        with suppress(FileError):
            replace_file(self._path, dumps({"at": now, "used": used}) + b"\n", mode=0o644)


def decayed(used: Mapping[int, float], seconds: float) -> dict[int, float]:
    """Return what the use counts some seconds later. Values close to 0 are dropped."""
    factor = 0.5 ** (max(0.0, seconds) / HALF_LIFE_SECONDS)
    return {person: left for person, amount in used.items() if (left := amount * factor) >= 0.001}


def with_use(used: Mapping[int, float], gpus: Mapping[int, int], seconds: float) -> dict[int, float]:
    """Return the use after some more seconds in which persons held so many `gpus`.

    By the end of that time, use at its beginning has already decayed with the half-life.
    """
    seconds = max(0.0, seconds)
    after = decayed(used, seconds)
    decay = 0.6931471805599453 / HALF_LIFE_SECONDS
    weight = (1 - 0.5 ** (seconds / HALF_LIFE_SECONDS)) / decay
    for person, count in gpus.items():
        after[person] = after.get(person, 0.0) + count * weight
    return after


def _read(path: str, now: float) -> Counted:
    try:
        counted = Counted.from_json(loads(read_plain_file(path)[0]))
    except (OSError, RecursionError, ValueError):
        return Counted(at=now, used={})
    is_sound = 0 <= counted.at <= now and all(0 <= amount < NEVER for amount in counted.used.values())
    return counted if is_sound else Counted(at=now, used={})
