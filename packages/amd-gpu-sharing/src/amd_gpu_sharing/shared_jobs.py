"""Jobs and reservations of all users, for the commands of a shared host."""

from __future__ import annotations

import os

from amd_gpu_tracker.book.state import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_gpu_tracker import Tracker
    from amd_gpu_tracker.watch.history.ended import Ended

# Many times what systemd takes to start the service.
STARTING_SECONDS = 2.0


class SharedJobs:
    """The jobs and reservations of one host, of all its users."""

    # Each method imports what it needs, as in `Tracker`.

    def __init__(self, tracker: Tracker) -> None:
        """Read the reservations of this tracker."""
        self._book = tracker.book
        self._state = tracker.book.state
        self._host = tracker.host
        self._rules = tracker.rules

    def owners(self) -> list[tuple[str, int | None]]:
        """Return the name and owner of each job and reservation that is not ending; None for an unknown owner.

        They are those of root's tracker, which has the jobs of all users.
        """
        from amd_gpu_tracker.book.job_ids import name_of, owner_of
        from amd_gpu_tracker.book.lease import ENDING_JOB
        from amd_gpu_tracker.leases.lease_scan import find_holders, scan_leases

        state = State(self._host)
        holders = find_holders(scan_leases(state, self._book.processes, state.lease_paths()).living)
        found = {each.job: owner_of(each.job) or each.person for each in holders if each.kind != ENDING_JOB}
        return [(name_of(job), owner) for job, owner in found.items()]

    def keep(self, name: str, *, owner: int | None, seconds: float) -> float:
        """Extend a reservation or job to `seconds` from now; return the seconds until it ends, 0 if it has no end.

        `name` is its name without the number of its owner, and `owner` that user, None for any. Raises NotDone,
        NotPermitted.
        """
        from amd_gpu_sharing.broker.jobs.job_time import keep_from_now

        return keep_from_now(self._book, name, owner, seconds)[1]

    def end(self, name: str, *, owner: int | None) -> None:
        """End a reservation or job as the service does, and wait for its end; arguments and errors as `keep`."""
        from amd_gpu_sharing.broker.queue.endings import end_at_once

        end_at_once(self._book, name, owner)

    def release(self, name: str, *, owner: int | None) -> None:
        """Release a reservation as the service does; arguments and errors as `keep`, ContainerRunning for a job."""
        from amd_gpu_sharing.broker.jobs.job_time import find_job
        from amd_gpu_sharing.broker.queue.grants import Grants
        from amd_gpu_sharing.node_access.users import NodeUsers

        Grants(self._book, NodeUsers(self._host)).release(find_job(self._book, name, owner))

    def ended_by_restart(self) -> list[Ended]:
        """Return the reservations that a restart of this machine ended before their time limit."""
        from amd_gpu_sharing.broker.requests.protocol import find_socket
        from amd_gpu_tracker.watch.history.ended import ended_path, read_ended

        state = State(self._host)
        if not os.path.exists(ended_path(state)) and (path := find_socket(self._host)):
            # The service writes them when it starts. Few hosts have the service, and its client takes long to load.
            from amd_gpu_sharing.broker.requests.client import is_served

            is_served(path, STARTING_SECONDS)
        return read_ended(state)

    def require_possible(self, request: str) -> None:
        """Raise an error if waiting can never fulfil a `request`."""
        from amd_gpu_sharing.broker.wait import require_possible

        require_possible(self._state, request, self._rules)
