"""Settings of the tracker about users and containers, which outlive `reset` and `disable`."""

from __future__ import annotations

from amd_gpu_tracker.errors import StateError, TrackerDisabled
from amd_gpu_tracker.records.ignored_users import read_ignored_users, write_ignored_users

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from amd_gpu_tracker.claims.claim import Book
    from amd_gpu_tracker.records.state import State


class LastingSettings:
    """The settings of one tracker; methods that set one return False if it was set already, and raise NotPermitted."""

    def __init__(self, book: Book) -> None:
        """Read and write the settings of this book."""
        self._book = book
        self._state = book.state
        self._host = book.state.host

    def require_reservation(self, *, required: bool = True) -> bool:
        """Give containers only the GPUs of reservations, or with `required` false the GPUs that they request.

        TrackerDisabled if the tracker is disabled.
        """
        return self._set(require_reservation=required)

    def requires_reservation(self) -> bool:
        """Return whether containers get only the GPUs of reservations; False also if the state cannot be read."""
        return bool(read_lasting(self._state).get("require_reservation"))

    def restart_grace(self) -> int:
        """Return for how many seconds a container keeps its GPUs until its engine restarts it; StateError."""
        return self._state.read_policy().restart_grace

    def set_restart_grace(self, seconds: int) -> bool:
        """Let restarting containers keep their GPUs for `seconds`, 0 to 3600.

        TrackerDisabled if the tracker is disabled.
        """
        return self._set(restart_grace=seconds)

    def is_exclusive_to_pods(self) -> bool:
        """Return whether the containers of a pod share its exclusive GPUs; StateError."""
        return self._state.read_policy().is_exclusive_to_pods

    def set_exclusive_to_pods(self, *, shared: bool = True) -> bool:
        """Allow the containers of a pod to share exclusive GPUs, or with `shared` false forbid it.

        Running containers keep their GPUs. TrackerDisabled if the tracker is disabled.
        """
        return self._set(is_exclusive_to_pods=shared)

    def ignored_users(self) -> tuple[int, ...]:
        """Return the users whose reservations are ignored."""
        return tuple(sorted(read_ignored_users(self._host)))

    def ignore_user(self, uid: int, *, ignored: bool = True) -> bool:
        """Ignore the reservations of the user `uid`, or read them again if `ignored` is false; only root may do it."""
        if (uid in read_ignored_users(self._host)) is ignored:
            return False
        with self._book.locked_by_root():
            before = read_ignored_users(self._host)
            write_ignored_users(self._host, before | {uid} if ignored else before - {uid})
        return True

    def _set(self, **lasting: object) -> bool:
        with self._book.locked_by_root():
            policy = self._state.read_policy()
            if not policy.enabled:
                raise TrackerDisabled
            changed = policy.replace(**lasting)
            self._state.write_policy(changed)
        return changed != policy


def read_lasting(state: State) -> dict[str, Any]:
    """Return the part of the policy that outlives `reset` and `disable`, nothing if it cannot be read."""
    try:
        return state.read_policy().lasting
    except StateError:
        return {}
