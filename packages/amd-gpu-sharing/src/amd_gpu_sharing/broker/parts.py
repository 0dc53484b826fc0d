"""The parts of a broker: leases, queue, plans and jobs of one host, each an object of its own."""

from __future__ import annotations

from amd_gpu_sharing.broker.jobs.child import Children
from amd_gpu_sharing.broker.jobs.idle_jobs import IdleJobs
from amd_gpu_sharing.broker.jobs.journal import Journal, Unrecorded
from amd_gpu_sharing.broker.jobs.leftovers import Leftovers
from amd_gpu_sharing.broker.queue.endings import Endings
from amd_gpu_sharing.broker.queue.grants import Grants
from amd_gpu_sharing.broker.queue.lease_view import LeaseView
from amd_gpu_sharing.broker.queue.planned import Plans
from amd_gpu_sharing.broker.queue.queue import Queue
from amd_gpu_sharing.broker.queue.recent_use import RecentUse
from amd_gpu_sharing.broker.queue.scopes import Scopes
from amd_gpu_sharing.broker.queue.seen_leases import SeenLeases
from amd_gpu_sharing.broker.requests.job_names import JobNames
from amd_gpu_sharing.node_access.users import NodeUsers
from amd_gpu_tracker.book.job_ids import job_id
from amd_gpu_tracker.claims.claim import Book


class BrokerParts:
    """What requests and rounds work on. The files are the truth: a new broker reads from them what these know."""

    def __init__(self, book: Book, log: Journal, *, grace: float) -> None:
        """Work on the host of `book`; a job that has to end gets `grace` seconds between TERM and KILL."""
        self.book, self.log = book, log
        self._state = state = book.state
        state.prepare()
        self.now = book.processes.now
        self.recent_use = RecentUse(state, self.now)
        self.node_users = NodeUsers(state.host)
        self.grants = Grants(book, self.node_users)
        children = Children()
        self.endings = Endings(book, log, children, grace=grace)
        self.idle = IdleJobs(book, log, children, checked_at=self.recent_use.counted_before)
        self.scopes = Scopes(state.host, self.node_users, log, children)
        self.queue = Queue(book, self.grants, self.scopes, self.recent_use, log=log)
        self.names = JobNames(state, self._has)
        self.unrecorded = Unrecorded(state, log)
        self.leftovers = Leftovers(book, log, children)
        self.plans = Plans(state, book.processes)
        self.leases = SeenLeases(book, self.grants, self.node_users, self.recent_use, self.leftovers, plans=self.plans)

    @property
    def view(self) -> LeaseView:
        """Return the leases as they were seen last."""
        return self.leases.view

    def _has(self, owner: int, name: str, person: int | None = None) -> bool:
        """Return whether a user has a job of this name, running or waiting; with `person`, one of that person."""
        job = job_id(owner, name)
        lease = self._state.read_lease(self._state.lease_path(("", job)))
        found = [each for each in (lease, *self.view.leases) if each and each.job == job]
        if person is not None:
            return any(each.person == person for each in found)
        return bool(found or self.queue.find(owner, name) or self.plans.find(owner, name))
