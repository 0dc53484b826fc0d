"""Records of reservations and of how busy GPUs are, and metrics for Prometheus."""

from __future__ import annotations

import time

from amd_gpu_tracker.book.state import REFUSALS, REPAIRS, STARTS, State
from amd_gpu_tracker.book.unrecorded import METRICS, clear_failure, note_failure, read_failures
from amdgpu_discovery.errors import FileError
from amdgpu_discovery.files import replace_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amd_gpu_tracker.claims.claim import Book
    from amd_gpu_tracker.watch.states.state import GpuState
    from amd_gpu_tracker.watch.usage.reader import UsageReader
    from amd_gpu_tracker.watch.usage.users import Usage


class Recording:
    """The records of one tracker; NotPermitted and FileError if they cannot be written."""

    # Doctor needs only the failures, so each method imports what it needs.

    def __init__(self, book: Book) -> None:
        """Record the reservations of this book."""
        self._book = book
        self._state = book.state

    def begin(self, *, readers: str = "") -> None:
        """Record every reservation from now on, readable for root and the group `readers`, or `everyone`."""
        from amd_gpu_tracker.book.history_directory import make_history

        with self._book.locked():
            make_history(self._state, readers=readers)

    def is_for(self, readers: str) -> bool:
        """Return whether `begin` with these `readers` would change nothing."""
        from amd_gpu_tracker.book.history_directory import is_history_for

        return is_history_for(self._state, readers=readers)

    def is_on(self) -> bool:
        """Return whether reservations are recorded."""
        return State(self._state.host).records_history

    def stop(self) -> None:
        """Stop recording reservations; existing records stay."""
        from amd_gpu_tracker.watch.history.files import stop_history

        with self._book.locked():
            stop_history(self._state)

    def settle(self) -> None:
        """Complete the records of reservations whose end was not written, for example after a power cut."""
        if self._state.records_history:
            from amd_gpu_tracker.watch.history.files import settle

            settle(self._book)

    def take_sample(self, reader: UsageReader, *, keep_days: int) -> Usage:
        """Add the current load of the GPUs to the history of their reservations, and return it.

        Months that ended more than `keep_days` days ago are removed.
        """
        from amd_gpu_tracker.watch.history.files import remove_old
        from amd_gpu_tracker.watch.history.sampling import add_sample
        from amd_gpu_tracker.watch.usage.screen import READING_SECONDS

        usage = reader.read_twice(READING_SECONDS)
        self.settle()
        add_sample(self._book, usage)
        remove_old(self._state, days=keep_days, now=time.time())
        return usage

    def write_metrics(
        self, path: str, usage: Usage, states: Sequence[GpuState], since: Sequence[float], *, has_failed: bool = False
    ) -> None:
        """Write these, and `since` when each job waits, to `path` for Prometheus; if that fails, record the reason.

        `has_failed` says whether the service that gives GPUs to people has failed.
        """
        from amd_gpu_tracker.watch.states.documents import format_state_metrics
        from amd_gpu_tracker.watch.usage.documents import format_prometheus

        counts = {event: self._state.read_count(event) for event in (STARTS, REFUSALS, REPAIRS)}
        metrics = format_state_metrics(
            states, counts=counts, waiting_since=since, has_failed=has_failed, now=time.time()
        )
        try:
            replace_file(path, f"{format_prometheus(usage)}\n{metrics}\n".encode(), mode=0o644)
        except FileError as error:
            note_failure(self._state.run_directory, METRICS, error.message)
        else:
            clear_failure(self._state.run_directory, METRICS)

    def failures(self) -> dict[str, str]:
        """Return the reason for each record that cannot be written."""
        return read_failures(State(self._state.host).run_directory)
