"""Answer requests and serve rounds: the only part of the broker that its loop talks to."""

from __future__ import annotations

from amd_gpu_sharing.broker import rounds
from amd_gpu_sharing.broker.acts import change_jobs, get_gpus
from amd_gpu_sharing.broker.current_terms import CurrentTerms
from amd_gpu_sharing.broker.jobs.ending import GRACE_SECONDS
from amd_gpu_sharing.broker.jobs.journal import Journal
from amd_gpu_sharing.broker.parts import BrokerParts
from amd_gpu_sharing.broker.queue.place import ABSENCE_SECONDS
from amd_gpu_sharing.broker.queue.queue import QUEUE_POLL_SECONDS
from amd_gpu_sharing.broker.requests import protocol
from amd_gpu_sharing.broker.requests.connection import Connection
from amd_gpu_sharing.broker.requests.people import FindTerms
from amd_gpu_sharing.broker.requests.protocol import FOR_GPUS, Answer, Request, refusal
from amd_gpu_sharing.broker.wakes import Wakes
from amd_gpu_tracker.book.job_ids import require_name
from amd_gpu_tracker.book.kinds import kind_of
from amd_gpu_tracker.book.lease import ENDING
from amd_gpu_tracker.claims.claim import Book
from amd_gpu_tracker.errors import WaitRefused
from amdgpu_discovery.errors import ToolkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from amd_gpu_sharing.broker.requests.people import Terms

    Act = Callable[[BrokerParts, Terms, Connection, Request], Answer | None]

ACTS: Mapping[str, Act] = {
    protocol.RUN: get_gpus.run,
    protocol.PREVIEW: get_gpus.preview,
    protocol.RESERVE: get_gpus.reserve,
    protocol.RELEASE: change_jobs.release,
    protocol.CANCEL: change_jobs.cancel,
    protocol.KEEP: change_jobs.keep,
    protocol.END: change_jobs.end,
    protocol.FIRST: change_jobs.put_first,
}


class Handler:
    """Decides who is allowed, who gets GPUs at once, and who waits."""

    def __init__(self, book: Book, find_terms: FindTerms, log: Journal, *, grace: float = GRACE_SECONDS) -> None:
        """Decide on the host of `book`; a job that has to end gets `grace` seconds between TERM and KILL."""
        self._parts = BrokerParts(book, log, grace=grace)
        self._terms = CurrentTerms(find_terms, self._parts)
        # Whether the next round has to look at the waiting jobs.
        self.is_changed = True

    def handle(self, client: Connection, request: Request) -> None:
        """Answer a request, or let its client wait."""
        try:
            answer = self._answer(client, request)
            self.is_changed = self.is_changed or request.verb != protocol.PREVIEW
        except ToolkitError as error:
            uid = client.peer.uid
            sentence = f"{request.verb} {request.name} of user {uid}: {error.message}"
            self._parts.log("refused", sentence, job=request.name, user=uid)
            answer = refusal(error)
        if answer is not None:
            client.finish(answer)

    def remove_client(self, client: Connection) -> None:
        """Forget a client whose connection ended."""
        self._parts.queue.remove_client(client)
        self.is_changed = True

    def serve(self) -> None:
        """Serve one round."""
        self.is_changed = False
        self.is_changed = rounds.serve(self._parts, self._terms.read())

    def watch(self, wakes: Wakes) -> None:
        """Let changes of access to device nodes, and ends of processes that hold GPUs, wake the loop."""
        wakes.watch_access(self._parts.node_users.watched)
        wakes.watch_processes(self._parts.view.holders)

    def descriptors(self) -> tuple[int, ...]:
        """Return what else wakes the loop: the ends of checks that run in children."""
        return tuple(self._parts.idle.check.descriptors)

    @property
    def has_waiters(self) -> bool:
        """Return whether jobs wait."""
        return len(self._parts.queue) > 0

    @property
    def has_work(self) -> bool:
        """Return whether leases or plans need the broker, even if nobody waits or asks."""
        view = self._parts.view
        # A container with a time limit may be all that is left of a job, and no start looks at a dirty GPU again.
        return bool(view.reservations or view.dirty) or self._next_end() is not None

    def next_due(self, *, must_poll: bool) -> float | None:
        """Return when to serve the next round, in seconds since boot; None if only events can bring work.

        With `must_poll`, changes of files cause no events.
        """
        queue = self._parts.queue
        now = self._parts.now()
        due = [self._next_end()]
        if self.has_waiters:
            due.append(queue.next_notice())
            if must_poll or queue.must_poll or self._has_silent_ends():
                due.append(now + QUEUE_POLL_SECONDS)
            if queue.has_absent():
                due.append(now + ABSENCE_SECONDS)
        return min((each for each in due if each is not None), default=None)

    def _next_end(self) -> float | None:
        """Return when a reservation or job next begins, ends, gets a warning or is looked at, in seconds since boot."""
        parts, leases = self._parts, self._parts.view.leases
        times = [parts.endings.next_time(leases), parts.idle.next_time, parts.plans.next_time()]
        times += [kind_of(each).lasts_until for each in leases]
        return min((each for each in times if each is not None), default=None)

    def _has_silent_ends(self) -> bool:
        """Return whether GPUs may become free without an event: those of users' own containers, and of pods."""
        return bool(self._parts.view.user_leases or self._parts.view.in_pods)

    def _answer(self, client: Connection, request: Request) -> Answer | None:
        require_name(request.name)
        if request.verb in (*FOR_GPUS, protocol.END) and request.name.endswith(ENDING):
            raise WaitRefused(f"names that end in {ENDING} belong to jobs that are ending", hint="choose another")
        # Without readable settings, users can give GPUs back, but get none and extend nothing.
        terms = self._terms.read(strict=request.verb in (*FOR_GPUS, protocol.KEEP))
        return ACTS[request.verb](self._parts, terms, client, self._with_written_names(client, request))

    def _with_written_names(self, client: Connection, request: Request) -> Request:
        """Return a request with the names that its jobs have in files."""
        uid = client.peer.uid
        written = self._parts.names.hide(request, uid, uid or request.owner)
        if written.name != request.name:
            sentence = f"{written.name} is the job {request.name} of user {uid}"
            self._parts.log("named", sentence, job=written.name, user=uid)
        return written
