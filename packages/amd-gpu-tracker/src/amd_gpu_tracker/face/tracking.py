"""Enables, disables and resets tracking, takes over from the original toolkit, and keeps lasting settings."""

from __future__ import annotations

from contextlib import ExitStack

from amd_gpu_tracker.book.matching import read_tracked_gpus
from amd_gpu_tracker.book.policy import LONGEST_GRACE, Policy
from amd_gpu_tracker.book.state import State, clear
from amd_gpu_tracker.book.user_files import LARGEST_UID, read_ignored_users, write_ignored_users
from amd_gpu_tracker.companion import find_sharing
from amd_gpu_tracker.errors import NotPermitted, StateError, TrackerDisabled
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.numbering import locate_gpus, require_all_gpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from amd_gpu_tracker.book.lease import Lease
    from amd_gpu_tracker.claims.adoption import Notify
    from amd_gpu_tracker.claims.claim import Book


class Tracking:
    """Switches the tracker; each method does what the method of `Tracker` with the same name promises."""

    def __init__(self, book: Book) -> None:
        """Switch the tracker of this book."""
        self._book = book
        self._state = book.state

    def enable(self, *, notify: Notify, when_enabled: Callable[[], None]) -> bool:
        """Start tracking, with all GPUs shared; return False if the tracker was enabled already."""
        # Before the lock and the check for root: every user may learn that there is nothing to do.
        if self._state.read_policy().enabled:
            return False
        with ExitStack() as last, self._book.locked_by_root():
            if self._state.read_policy().enabled:
                return False
            policy = self._fresh_policy(enabled=True)
            # Leases that an interrupted `disable` left must not come back to life.
            self._state.remove_leases()
            try:
                # If it is killed after this, the tracker is disabled with a history, rather than enabled without one.
                self._begin_history()
            finally:
                # The tracker is enabled even if the history cannot be begun. The last callback is called first.
                self._state.write_policy(policy)
                last.callback(self._adopt, notify)
                last.callback(when_enabled)
        return True

    def disable(self) -> bool:
        """Stop tracking and forget all reservations; return False if the tracker was disabled already."""
        if not self._state.read_policy().enabled:
            return False
        with self._book.locked_by_root():
            if not self._state.read_policy().enabled:
                return False
            self._state.write_policy(Policy(**read_lasting(self._state)))
            self._state.remove_leases()
        if sharing := find_sharing():
            sharing.give_back(self._state.host)
        return True

    def reset(self, *, force: bool, notify: Notify) -> bool:
        """Make all GPUs shared and detect their users again; return whether the tracker is enabled."""
        from amd_gpu_tracker.claims.forgetting import find_surviving

        self._state.prepare()
        clear(self._state.lock_path)
        with self._book.locked_by_root():
            enabled = self._enabled_as_far_as_known()
            policy = self._fresh_policy(enabled=enabled)
            living = find_surviving(self._state, policy, self._book.processes) if enabled else []
            self._state.clear_files()
            self._state.write_policy(policy)
            kept = {self._state.lease_path(lease.key) for lease in living if not force}
            self._state.remove_leases(but=kept)
            for lease in living:
                if not force:
                    self._state.write_lease(lease)
        if enabled:
            try:
                # If there is no history yet, AMD's toolkit 1.x had enabled the tracker.
                self._begin(notify)
            finally:
                self._report_kept(living, force=force, notify=notify)
        return enabled

    def take_over(self, notify: Notify) -> None:
        """Take over the original toolkit's state, if the caller may do that.

        Raises StateError, once, if the state cannot be taken over; from then on, every GPU is refused.
        """
        try:
            with self._book.locked_by_root():
                former = self._state.take_over()
            if former and former.enabled:
                self._begin(notify)
        except NotPermitted:
            return

    def _begin(self, notify: Notify) -> None:
        """Begin the history and adopt running containers; an error in one does not stop the other."""
        try:
            with self._book.locked():
                self._begin_history()
        finally:
            self._adopt(notify)

    def _adopt(self, notify: Notify) -> None:
        from amd_gpu_tracker.claims.adoption import adopt_running

        adopt_running(self._book, notify, since=self._book.processes.now())

    def _report_kept(self, living: Sequence[Lease], *, force: bool, notify: Notify) -> None:
        """Report which reservations keep GPUs after a reset, and which are forgotten."""
        from amd_gpu_tracker.claims.forgetting import describe_lease

        gpus = locate_gpus(self._state.host)
        for lease in living:
            who, what = describe_lease(lease, gpus)
            if lease.gpus and not force:
                notify(f"{who} is running and uses {what}")
            # If adoption has found a container again, nothing is forgotten.
            elif lease.gpus and self._state.read_lease(self._state.lease_path(lease.key)) is None:
                notify(f"{who} is running, and its reservation of {what} is forgotten")

    def _enabled_as_far_as_known(self) -> bool:
        try:
            return self._state.read_policy().enabled
        except StateError:
            return True

    def _begin_history(self) -> None:
        if not self._state.is_rootless:
            from amd_gpu_tracker.book.history_directory import begin_history

            begin_history(self._state)

    def _fresh_policy(self, *, enabled: bool) -> Policy:
        lasting = read_lasting(self._state)
        if not enabled:
            return Policy(**lasting)
        gpus = locate_gpus(self._state.host)
        # A policy covers all GPUs of the host.
        require_all_gpus(gpus)
        return Policy(enabled=True, gpus=read_tracked_gpus(self._state.host, gpus), **lasting)


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

        RequestError for other numbers, TrackerDisabled if the tracker is disabled.
        """
        if not 0 <= seconds <= LONGEST_GRACE:
            raise RequestError(f"{seconds} is not a number of seconds from 0 to {LONGEST_GRACE}")
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
        """Ignore the reservations of the user `uid`, or read them again if `ignored` is false; only root may do it.

        RequestError if `uid` cannot be the number of a user.
        """
        if not 0 <= uid <= LARGEST_UID:
            raise RequestError(f"{uid} is not the number of a user")
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
