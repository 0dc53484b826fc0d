"""Warn jobs that are close to their time limit, and end those that have reached it. Jobs without a limit run on.

A child process ends each job, so that a slow job or engine never blocks the broker. Everything kept in memory here may
be lost: a new broker warns once more, and ends what still runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial

from amd_gpu_sharing.broker.jobs.child import PRINT_SECONDS, Children, print_to_job
from amd_gpu_sharing.broker.jobs.ending import GRACE_SECONDS, EndingNote, end_container, end_job, read_notes, resume_end
from amd_gpu_sharing.broker.jobs.job_processes import gpus_of
from amd_gpu_sharing.broker.jobs.job_time import end_now
from amd_gpu_sharing.broker.jobs.journal import Journal, log_of
from amd_gpu_tracker.book.job_ids import name_of
from amd_gpu_tracker.book.kinds import kind_of
from amd_gpu_tracker.book.lease import BY_API, ENDING, Holder, Lease
from amd_gpu_tracker.claims.claim import Book, Claim
from amd_gpu_tracker.claims.release import release
from amd_gpu_tracker.claims.reservation import reserve
from amd_gpu_tracker.leases.processes import FIRST_PROCESS
from amd_gpu_tracker.times import format_seconds
from amdgpu_discovery.errors import ToolkitError

# Jobs get a warning this long before their end; jobs shorter than twice this get it at half time.
WARNING_SECONDS = 600.0
# Retry after this long if a process did not end, for example because it is blocked in its driver.
ENDING_RETRY_SECONDS = 60.0


class Endings:
    """Keeps track of which jobs were warned, and which are being ended."""

    def __init__(self, book: Book, log: Journal, children: Children, *, grace: float = GRACE_SECONDS) -> None:
        self._book, self._state, self._processes = book, book.state, book.processes
        self._log = log
        self._grace = grace
        # By `_key`: the process that ends a job, and when it was last seen running, in seconds since boot.
        self._ending: dict[tuple[str, int, float], tuple[int, float]] = {}
        self._children = children
        self._warned: set[tuple[str, int, float]] = set()
        # Jobs that a user ends early. A new broker does not know them, and gives the time limit as the reason.
        self.ended_by_user: set[str] = set()
        now = self._processes.now()
        for note in read_notes(book.state):
            self._ending[_key(note.lease)] = (children.start(partial(self._resume, note)), now)

    def serve(self, leases: Iterable[Lease], now: float) -> None:
        """Warn and end those of the `leases` that are due; `now` is in seconds since boot."""
        self._children.collect()
        limited = self._limited(leases)
        living = {_key(lease) for lease, _ in limited}
        self.ended_by_user &= {lease.container_id for lease, _ in limited}
        self._warned &= living
        self._ending = {
            key: (pid, now if pid in self._children.running else seen)
            for key, (pid, seen) in self._ending.items()
            if key in living
        }
        for lease, containers in limited:
            if kind_of(lease).is_ending(now):
                self._end(lease, containers, now)
            elif now >= _warned_at(lease) and _key(lease) not in self._warned:
                self._warn(lease, now)

    def next_time(self, leases: Iterable[Lease]) -> float | None:
        """Return when the next warning or end is due, in seconds since boot; None if no lease has a limit."""
        return min((self._next(lease) for lease, _ in self._limited(leases)), default=None)

    def _next(self, lease: Lease) -> float:
        key = _key(lease)
        if key in self._ending:
            return self._ending[key][1] + ENDING_RETRY_SECONDS
        return lease.limit if key in self._warned else _warned_at(lease)

    def _limited(self, leases: Iterable[Lease]) -> list[tuple[Lease, list[Lease]]]:
        """Return the leases with a limit, each with its containers, which end with it."""
        namespace = self._processes.namespace
        # In another pid namespace, its ids would mean other processes.
        found = [each for each in leases if kind_of(each).is_limited and each.namespace == namespace]
        containers: dict[str, list[Lease]] = {each.token_digest: [] for each in found if each.token_digest}
        outside: list[Lease] = []
        for each in found:
            containers.get(each.reservation_digest, outside).append(each)
        return [(each, containers.get(each.token_digest, [])) for each in outside]

    def _warn(self, lease: Lease, now: float) -> None:
        self._warned.add(_key(lease))
        if not lease.is_by_name:
            return
        title = name_of(lease.container_id)
        left = format_seconds(round(lease.limit - now))
        sentence = f"amd-ctk: job {title} reaches its time limit in {left}; it then gets SIGTERM, then SIGKILL"
        print_to_job(lease, sentence, self._processes, self._children)
        self._log_of(lease)("warned", f"{lease.container_id}: reaches its time limit in {left}")

    def _log_of(self, lease: Lease) -> Journal:
        return log_of(self._log, lease, self._state.host)

    def _end(self, lease: Lease, containers: Sequence[Lease], now: float) -> None:
        _, seen = self._ending.get(_key(lease), (0, -ENDING_RETRY_SECONDS))
        if now >= seen + ENDING_RETRY_SECONDS:
            self._ending[_key(lease)] = (self._children.start(lambda: self._end_now(lease, containers)), now)

    def _end_now(self, lease: Lease, containers: Sequence[Lease]) -> None:
        now = self._state.read_lease(self._state.lease_path(lease.key))
        if now is not None and _key(now) != _key(lease):
            # The job was extended meanwhile.
            return
        for each in containers:
            end_container(each, self._processes, self._log_of(each), grace=self._grace)
        if not lease.is_by_name:
            end_container(lease, self._processes, self._log_of(lease), grace=self._grace)
            return
        printing = print_to_job(lease, self._reason_to_end(lease), self._processes, self._children)
        self._children.wait(printing, PRINT_SECONDS)
        self._hold_gpus(lease)
        end_job(lease, self._book, self._log_of(lease), grace=self._grace)
        self._release_hold(lease)

    def _reason_to_end(self, lease: Lease) -> str:
        title = name_of(lease.container_id)
        if lease.container_id in self.ended_by_user:
            return f"amd-ctk: 'amd-ctk end' ends job {title}"
        if not lease.is_preempted:
            return f"amd-ctk: job {title} has reached its time limit"
        if lease.is_spare:
            return f"amd-ctk: job {title} ends because someone waits for its GPUs"
        unused = format_seconds(lease.limit - lease.idle_since)
        return f"amd-ctk: the GPUs of job {title} were idle for {unused}, and someone waits for them: it ends"

    def _resume(self, note: EndingNote) -> None:
        resume_end(note, self._book, self._log_of(note.lease), grace=self._grace)
        self._release_hold(note.lease)

    def _release_hold(self, lease: Lease) -> None:
        """Release what `_hold_gpus` holds."""
        with suppress(ToolkitError):
            creators = (first,) if (first := self._processes.find(FIRST_PROCESS)) else ()
            release(self._book, f"{lease.container_id}{ENDING}", creators=creators)

    def _hold_gpus(self, lease: Lease) -> None:
        """Hold a job's GPUs while it ends, even across brokers: its first process may end before the others."""
        now = self._processes.now()
        first = self._processes.find(FIRST_PROCESS)
        gpus = gpus_of(lease, self._state.host)
        claim = Claim(
            holder=Holder(container_id=f"{lease.container_id}{ENDING}", creator=first or self._processes.myself()),
            wanted=gpus,
            ways=(BY_API,),
            person=lease.person,
            group=lease.group,
            reservation=lease.container_id,
            until=now + self._grace + ENDING_RETRY_SECONDS,
            preemptible=lease.spare_from,
        )
        with suppress(ToolkitError):
            reserve(self._book, claim)


def end_at_once(book: Book, name: str, owner: int | None) -> None:
    """End a reservation or job without a service, and return when it has ended. Errors as `end_now`."""
    ended = end_now(book, name, owner)
    children = Children()
    endings = Endings(book, lambda *_, **__: None, children)
    endings.ended_by_user.add(ended[0].job)
    endings.serve(ended, book.processes.now())
    for pid in children.running:
        os.waitpid(pid, 0)


def _key(lease: Lease) -> tuple[str, int, float]:
    # A job that was extended has another limit, and gets another warning.
    return lease.container_id, lease.creator.start, lease.limit


def _warned_at(lease: Lease) -> float:
    began = lease.since - lease.boot_offset
    return lease.limit - min(WARNING_SECONDS, (lease.limit - began) / 2)
