"""The leases as the broker last saw them. Leases that ended are dropped and recorded; jobs may go on in containers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from amd_gpu_sharing.broker.jobs.job_processes import find_container
from amd_gpu_sharing.broker.jobs.journal import log_of
from amd_gpu_sharing.broker.jobs.leftovers import Leftovers
from amd_gpu_sharing.broker.queue.grants import Grants
from amd_gpu_sharing.broker.queue.lease_view import LeaseView, read_view
from amd_gpu_sharing.broker.queue.planned import Plans
from amd_gpu_sharing.broker.queue.recent_use import RecentUse
from amd_gpu_sharing.node_access.users import NodeUsers
from amd_gpu_tracker.book.history import FOUND, PROGRAM
from amd_gpu_tracker.book.job_ids import name_of, owner_of
from amd_gpu_tracker.book.kinds import kind_of
from amd_gpu_tracker.book.lease import JOB, Lease
from amd_gpu_tracker.book.lock import hold_until_exit
from amd_gpu_tracker.claims.claim import Book
from amd_gpu_tracker.claims.release import release
from amd_gpu_tracker.leases.lease_scan import prune_leases
from amd_gpu_tracker.leases.restarts import FOLLOWED
from amd_gpu_tracker.watch.history.files import settle
from amdgpu_discovery.errors import ToolkitError


class SeenLeases:
    """`view` is the result of the last `refresh`."""

    def __init__(
        self,
        book: Book,
        grants: Grants,
        node_users: NodeUsers,
        recent_use: RecentUse,
        leftovers: Leftovers,
        *,
        plans: Plans,
    ) -> None:
        """Drop leases that ended while no broker was running. Views have the `plans`."""
        self._book, self._state, self._processes = book, book.state, book.processes
        self._grants = grants
        self._node_users = node_users
        self._recent_use = recent_use
        self._log = leftovers.log
        self._leftovers, self._plans = leftovers, plans
        self.view = LeaseView()
        self._reconcile()
        with suppress(ToolkitError, OSError), book.locked():
            # From now on, ends that others see first are as certain as those that this process sees.
            hold_until_exit(f"{self._state.run_directory}/{FOLLOWED}")

    def refresh(self) -> LeaseView:
        """Read the leases again, and count the use of GPUs."""
        self._end_reservations()
        before = [*self.view.leases, *self._grants.unseen]
        view = self._read_view()
        if self._move_to_containers(before, view):
            view = self._read_view()
        # Before anyone gets the GPUs of a lease that has ended.
        if self._leftovers.look(_ended(before, view), view.leases) or self._recheck(view):
            view = self._read_view()
        # Assigned only if this succeeds: the next `refresh` needs the view with the jobs that ended.
        self.view = view.replace(planned=self._plans.starts(view.numbers))
        self._grants.unseen = []
        self._node_users.update(self.view.leases)
        self._recent_use.count(self.view.holding)
        living = {lease.container_id for lease in self.view.reservations}
        given = self._grants.gpus_by_job
        if ended := sorted(given.keys() - living):
            # The broker saw this end now. With FOUND, the history would date it back to the last sample.
            self._drop_ended(PROGRAM, [self._state.lease_path(("", job)) for job in ended])
        for job in ended:
            self._log("ended", job, job=name_of(job), user=owner_of(job), gpus=given[job])
        self._grants.gpus_by_job = self.view.gpus_by_job()
        return self.view

    def _read_view(self) -> LeaseView:
        return read_view(self._state, self._processes, self._book.pods())

    def _recheck(self, view: LeaseView) -> bool:
        return bool(view.dirty) and self._leftovers.recheck()

    def _move_to_containers(self, leases: Sequence[Lease], view: LeaseView) -> bool:
        """Let jobs go on in containers that their commands left detached; return whether there are any.

        This looks at all processes, so only for jobs that may have such a container: those with a limit, which the
        container keeps, spare ones, and those that a lease of a user's own container names.
        """
        named = {each.lease.reservation_digest for each in view.user_leases}
        ended = (each for each in _ended(leases, view) if each.kind == JOB)
        candidates = [each for each in ended if kind_of(each).has_terms or each.token_digest in named]
        # A list, so that every job is tried.
        moved = [self._move_to_container(each) for each in candidates]
        return any(moved)

    def _move_to_container(self, job: Lease) -> bool:
        container = find_container(job, self._processes)
        if container is None or not self._grants.move_to_container(job, container):
            return False
        sentence = f"{job.container_id}, in a container, as process {container.pid}"
        log_of(self._log, job, self._state.host)("goes on", sentence)
        return True

    def _reconcile(self) -> None:
        """Drop leases that ended while no broker was running."""
        with suppress(ToolkitError):
            leases = [each for path in self._state.lease_paths() if (each := self._state.read_lease(path))]
            self._move_to_containers(leases, self._read_view())
            view = self._read_view()
            self._leftovers.look(_ended(leases, view), view.leases)
        with suppress(ToolkitError, OSError):
            settle(self._book)
        self._drop_ended(FOUND)

    def _drop_ended(self, how: str, paths: Sequence[str] = ()) -> None:
        """Remove leases whose holders have ended, all or only `paths`; the history records `how` this is known."""
        with suppress(ToolkitError), self._book.locked():
            prune_leases(self._state, self._processes, paths or self._state.lease_paths(locked=True), how)

    def _end_reservations(self) -> None:
        """Drop the reservations whose time is over."""
        now = self._processes.now()
        for lease in self.view.leases:
            if kind_of(lease).is_over(now):
                # `release` reads the lease again, because it may have been extended meanwhile.
                release(self._book, lease.container_id)


def _ended(before: Sequence[Lease], view: LeaseView) -> list[Lease]:
    """Return the leases of `before` that a view no longer has."""
    living = {each.key for each in view.leases}
    return [each for each in before if each.key not in living]
