"""Warn owners of reservations and jobs whose GPUs are idle, and later end these for jobs that wait.

The leases record since when the GPUs have been idle. If no check succeeds for more than three minutes, the idle time
starts again at the next one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial

from amd_gpu_sharing.broker.jobs.child import Children, print_to_job
from amd_gpu_sharing.broker.jobs.journal import Journal, log_of
from amd_gpu_tracker.book.job_ids import name_of
from amd_gpu_tracker.book.kinds import kind_of
from amd_gpu_tracker.book.lease import JOB, Lease
from amd_gpu_tracker.claims.claim import Book
from amd_gpu_tracker.leases.lease_scan import scan_leases
from amd_gpu_tracker.times import format_seconds
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host
from amdgpu_discovery.untrusted.plain_json import dumps, loads

# Number of checks until a warning, and the longest time between two.
CHECKS = 10
MOST_BETWEEN_CHECKS = 60.0
# Time limit of a check. It takes far less, even with the health of GPUs, which has its own limit.
IDLE_CHECK_SECONDS = 20.0
# The capacity of a pipe. The keys of all GPUs are written at once, and need far less.
LARGEST_PIPE_WRITE = 65536


class IdleJobs:
    """Tracks idle GPUs, check by check."""

    def __init__(self, book: Book, log: Journal, children: Children, *, checked_at: float) -> None:
        """Continue the work of an earlier broker, whose last check was at `checked_at`, in seconds since boot."""
        self._book, self._state, self._processes = book, book.state, book.processes
        self._log = log
        self._children = children
        self.check = IdleCheck(book.state.host, children)
        self._seconds = 0
        self._checked_at = checked_at
        self._next_check: float | None = None
        self._warned: set[tuple[str, float]] = set()
        # Whether the leases show the result of a check of this round.
        self.is_fresh = False

    @property
    def next_time(self) -> float | None:
        """Return when the next check or its time limit is due, in seconds since boot."""
        return self.check.deadline or self._next_check

    def serve(self, leases: Sequence[Lease], seconds: int, now: float) -> bool:
        """Check, warn, and record idle times in the leases; return whether leases changed.

        `seconds` is the idle time until a warning, 0 for never. `now` is in seconds since boot.
        """
        self._seconds, self.is_fresh = seconds, False
        jobs = [each for each in leases if kind_of(each).may_be_idle] if seconds else []
        unused = self.check.finish(now)
        is_changed = self._record(jobs, unused, now) if unused is not None else False
        for job in jobs:
            if job.idle_since and now >= job.idle_since + seconds:
                self._warn(job, leases)
        if not seconds:
            is_changed = self._clear(leases)
        self._schedule(now, is_needed=bool(jobs))
        return is_changed

    def check_now(self, now: float) -> None:
        """Check at once: a job waits, and only jobs that are idle now may end for it."""
        self._next_check = now
        self._schedule(now, is_needed=True)

    def preempt(self, job: Lease, waiting_job: str, now: float) -> None:
        """Mark a reservation or job, and everything in it, to end for a waiting job. `Endings` then ends it."""
        with self._book.locked():
            lease = self._state.read_lease(self._state.lease_path(job.key))
            # It may have been extended meanwhile, or another job may have its name.
            if lease is None or (lease.creator, lease.preemptible) != (job.creator, job.preemptible):
                return
            leases = scan_leases(self._state, self._processes, self._state.lease_paths(locked=True)).living
            for each in (*lease.inside(leases), lease):
                ended = kind_of(each).with_end(now)
                self._state.write_lease(ended.replace(is_preempted=True, idle_since=lease.idle_since))
        why = f"{waiting_job} waits for its GPUs"
        if not lease.is_spare:
            why = f"its GPUs were idle for {format_seconds(now - lease.idle_since)}, and {waiting_job} waits for them"
        log_of(self._log, lease, self._state.host)("preempted", f"{lease.container_id}: {why}")

    def _schedule(self, now: float, *, is_needed: bool) -> None:
        """Start a check if it is due, and schedule the next one."""
        between = max(1.0, min(MOST_BETWEEN_CHECKS, self._seconds / CHECKS))
        if not is_needed:
            self._next_check = None
        elif self._next_check is None or now >= self._next_check:
            self.check.start(now)
            self._next_check = now + between

    def _record(self, jobs: Sequence[Lease], unused: frozenset[str], now: float) -> bool:
        """Record which of the jobs are idle; return whether anything changed."""
        self.is_fresh = True
        # Checks are missing in between.
        is_gap = now > self._checked_at + 3 * MOST_BETWEEN_CHECKS + IDLE_CHECK_SECONDS
        self._checked_at, noted = now, []
        for job in jobs:
            since = now if is_gap else job.idle_since or now
            if not unused.issuperset(job.gpus):
                since = 0.0
            end = since + 2 * self._seconds if since else 0.0
            noted.append(job.replace(idle_since=since, preemptible=end))
        return self._write(jobs, noted)

    def _clear(self, leases: Sequence[Lease]) -> bool:
        """Clear the idle times of leases once warnings are turned off."""
        jobs = [each for each in leases if kind_of(each).may_be_idle]
        return self._write(jobs, [each.replace(idle_since=0.0, preemptible=0.0) for each in jobs])

    def _write(self, jobs: Sequence[Lease], noted: Sequence[Lease]) -> bool:
        """Update the leases that changed and still exist, and return whether any changed.

        On a full disk, the update is lost.
        """
        changed = [job for job in noted if job not in jobs]
        for job in changed:
            try:
                with self._book.locked():
                    lease = self._state.read_lease(self._state.lease_path(job.key))
                    if lease is not None and lease.creator == job.creator and kind_of(lease).may_be_idle:
                        self._state.write_lease(lease.replace(idle_since=job.idle_since, preemptible=job.preemptible))
            except ToolkitError as error:
                self._log("not written down", f"{job.container_id}: {error.message}")
        return bool(changed)

    def _warn(self, job: Lease, leases: Sequence[Lease]) -> None:
        key = (job.container_id, job.idle_since)
        if key in self._warned:
            return
        self._warned.add(key)
        unused = format_seconds(self._seconds)
        name = name_of(job.container_id)
        log_of(self._log, job, self._state.host)("warned", f"{job.container_id}: its GPUs have been idle for {unused}")
        sentence = (
            f"amd-ctk: the GPUs of {name} have been idle for {unused}; after another {unused}, it ends when someone"
            f" waits for them ('amd-ctk keep {name}' prevents that)"
        )
        for each in (job, *job.inside(leases)):
            if each.kind == JOB:
                print_to_job(each, sentence, self._processes, self._children)


class IdleCheck:
    """Checks GPUs in child processes, because KFD or a driver may hang.

    Only one check runs at a time. A check that hangs yields no result, and the next one starts only after it has ended.
    """

    def __init__(self, host: Host, children: Children) -> None:
        self._host = host
        self._children = children
        self._pid = 0
        self._reader = -1
        self._began = 0.0

    @property
    def descriptors(self) -> list[int]:
        """Return the descriptors that become readable when the check has a result."""
        return [self._reader] if self._reader >= 0 else []

    @property
    def deadline(self) -> float | None:
        """Return the time limit of the running check, in seconds since boot; None if none runs."""
        return self._began + IDLE_CHECK_SECONDS if self._reader >= 0 else None

    def start(self, now: float) -> None:
        """Start a check, unless an earlier one is still running."""
        self._children.collect()
        if self._reader >= 0 or self._pid in self._children.running:
            return
        self._reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(writer, True)
        self._began = now
        try:
            act = partial(_write_unused, self._host, writer)
            self._pid = self._children.start(act, seconds=int(IDLE_CHECK_SECONDS), keep=(writer,))
        finally:
            os.close(writer)

    def finish(self, now: float) -> frozenset[str] | None:
        """Return the keys of the idle GPUs once the check has ended; None before that, and if it failed."""
        if self._reader < 0:
            return None
        try:
            answer = os.read(self._reader, LARGEST_PIPE_WRITE)
        except BlockingIOError:
            if now < self._began + IDLE_CHECK_SECONDS:
                return None
            answer = b""
        os.close(self._reader)
        self._reader = -1
        try:
            return frozenset(loads(answer))
        except ValueError:
            return None


def _write_unused(host: Host, writer: int) -> None:
    """Write the keys of the idle GPUs. A GPU whose driver does not answer counts as used."""
    # Imported here, because only the child needs them.
    from amd_gpu_tracker.leases.use import read_gpu_uses
    from amdgpu_discovery.discover import find_gpus
    from amdgpu_discovery.health.reading import read_health

    gpus = find_gpus(host)
    health = read_health(host, [str(gpu.pci_address) for gpu in gpus], with_errors=False)
    uses = read_gpu_uses(host, gpus, health)
    unknown = {address for address, each in health.items() if each.is_unknown or each.is_hanging}
    unused = [gpu.key for gpu in gpus if not uses[gpu.number].is_used and str(gpu.pci_address) not in unknown]
    os.write(writer, dumps(unused))
