"""The service says what cannot be recorded, once, and when it works again."""

from __future__ import annotations

from amd_gpu_tracker.records.state import State
from amd_gpu_tracker.records.unrecorded import read_failures

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_gpu_tracker.broker.journal import Log


class Unrecorded:
    """What was said last of each record."""

    def __init__(self, state: State, log: Log) -> None:
        self._state = state
        self._log = log
        self._said: dict[str, str] = {}

    def say(self) -> None:
        """Say what has changed."""
        found = read_failures(self._state.run_directory)
        for record, problem in found.items():
            if self._said.get(record) != problem:
                self._log("not recorded", f"{record}: {problem}")
        for record in sorted(self._said.keys() - found.keys()):
            self._log("recorded again", record)
        self._said = found
