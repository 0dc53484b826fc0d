"""Give GPUs to a process of somebody, or reserve them for later: one lease each, under the tracker's lock."""

from __future__ import annotations

import os
from collections.abc import Sequence

from amd_gpu_tracker.broker.job_processes import owner_of_job
from amd_gpu_tracker.broker.opened import Opened
from amd_gpu_tracker.broker.protocol import GRANTED, Answer
from amd_gpu_tracker.claims.by_name import preview_by_name, reserve_by_name
from amd_gpu_tracker.claims.claim import Claim
from amd_gpu_tracker.claims.decision import find_rivals
from amd_gpu_tracker.claims.handover import build_environment, digest_of, find_reservation, new_token
from amd_gpu_tracker.claims.preview import preview
from amd_gpu_tracker.claims.release import release
from amd_gpu_tracker.claims.reservation import reserve
from amd_gpu_tracker.errors import ContainerRunning, NotDone
from amd_gpu_tracker.history.ended import read_ended
from amd_gpu_tracker.life.lease_scan import scan_leases
from amd_gpu_tracker.records.lease import BY_API, Holder, Lease, ProcessId
from amdgpu_discovery.choices.rules import ChoiceRules
from amdgpu_discovery.errors import FileError
from amdgpu_discovery.gpu import GpuLocation
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from amd_gpu_tracker.broker.people import Permission
    from amd_gpu_tracker.claims.claim import Book
    from amd_gpu_tracker.records.state import State

# The process that no reservation without a process outlives: a host that starts again has none of them.
FIRST_PROCESS = 1
# What holds the GPUs of a job while that is ended is called like the job, with this behind.
ENDING = ".ending"


class JobGrant(Value):
    """What was given: the numbers of GPUs, the variables by which a program has them, and for how long at most."""

    numbers: tuple[int, ...]
    environment: dict[str, str]
    seconds: int = 0

    def answer(self) -> Answer:
        """Return what tells the client."""
        return Answer(kind=GRANTED, numbers=self.numbers, environment=self.environment, seconds=self.seconds)


class Grants:
    """What gives GPUs of one host and takes them back."""

    def __init__(self, book: Book, opened: Opened) -> None:
        self._book = book
        self._state = book.state
        self._processes = book.processes
        self._now = book.processes.now
        self._opened = opened
        # The jobs that were given something, with the numbers of their GPUs, for the record of their ends.
        self.given: dict[str, tuple[int, ...]] = {}

    def give(
        self,
        job: str,
        request: str,
        process: ProcessId,
        *,
        person: int,
        permission: Permission,
        rules: ChoiceRules,
        is_spare: bool,
        is_waiting: bool = False,
    ) -> JobGrant:
        """Give the GPUs of a request to a process, under the id of its job, for as long as a permission allows.

        What is spare ends as soon as somebody waits for it. Errors as `Tracker.hold`.
        """
        token = new_token(job)
        limit = self._now() + permission.seconds if permission.seconds else 0.0
        gpus = self._reserve(
            *(job, request, process.pid, token),
            person=person,
            group=permission.group,
            rules=rules,
            limit=limit,
            preemptible=self._now() if is_spare else 0.0,
            is_waiting=is_waiting,
        )
        return self._grant(gpus, token, limit)

    def preview(self, job: str, request: str, *, rules: ChoiceRules, seconds: int = 0) -> JobGrant:
        """Return what `give` would give now, or raise what it would raise."""
        gpus = preview_by_name(self._book, job, request, rules=rules)
        return self._grant(gpus, "", self._now() + seconds if seconds else 0.0)

    def keep(
        self, job: str, request: str, seconds: float, *, person: int, permission: Permission, rules: ChoiceRules
    ) -> tuple[int, ...]:
        """Reserve GPUs for some time without a process. Errors as `Tracker.hold`."""
        gpus = self._reserve(
            *(job, request, FIRST_PROCESS, new_token(job)),
            person=person,
            group=permission.group,
            rules=rules,
            until=self._now() + seconds,
        )
        return tuple(gpu.number for gpu in gpus)

    def give_inside(self, job: str, reservation: str, process: ProcessId, *, person: int) -> JobGrant:
        """Give the GPUs of a reservation to a process, until that is over.

        GpusRefused if there is none, or somebody has them.
        """
        token = new_token(job)
        claim = self._claim_inside(job, reservation, process).replace(token_digest=digest_of(token), person=person)
        if not reserve(self._book, claim):
            raise ContainerRunning(f"{job} has GPUs already", hint="give every job a name of its own")
        self._open(job, claim.wanted)
        return self._grant(claim.wanted, token, claim.limit)

    def preview_inside(self, job: str, reservation: str, process: ProcessId) -> JobGrant:
        """Return what `give_inside` would give now, or raise what it would raise."""
        claim = self._claim_inside(job, reservation, process)
        preview(self._book, claim)
        return self._grant(claim.wanted, "", claim.limit)

    def give_again(self, job: str, process: ProcessId) -> JobGrant | None:
        """Give a process what it was given before and was not told; None where it was given nothing."""
        path = self._state.lease_path(("", job))
        found = self._state.read_lease(path)
        if found is None or found.creator != process:
            return None
        with self._book.locked():
            lease = self._state.read_lease(path)
            if lease is None or lease.creator != process:
                return None
            token = new_token(job)
            self._state.write_lease(lease.replace(token_digest=digest_of(token)))
        return self._grant([gpu for gpu in locate_gpus(self._state.host) if gpu.key in lease.gpus], token, lease.limit)

    def hand_down(self, job: Lease, container: ProcessId) -> bool:
        """Let a job whose command has ended go on in a container; False where its GPUs were given away since."""
        path = self._state.lease_path(job.key)
        with self._book.locked():
            found = self._state.read_lease(path)
            living = scan_leases(self._state, self._processes, self._state.lease_paths(locked=True)).living
            others = {key for each in find_rivals(job, living) if each.key != job.key for key in each.gpus}
            if others.intersection(job.gpus) or (found is not None and found.creator != job.creator):
                return False
            self._state.write_lease((found or job).replace(init=container))
        return True

    def require_free_name(self, job: str, name: str) -> None:
        """Raise ContainerRunning where a job of this name runs, or its container: better now than after the wait."""
        living = scan_leases(self._state, self._processes, self._state.lease_paths()).living
        if any(lease.job == job for lease in living):
            raise ContainerRunning(f"{name} has GPUs already", hint="give every reservation a name of its own")

    def take_back(self, job: str) -> tuple[Lease, ...]:
        """Drop a lease whatever its process says."""
        lease = self._state.read_lease(self._state.lease_path(("", job)))
        creators = (lease.creator,) if lease else ()
        return release(self._book, job, creators=creators).dropped

    def drop_over(self, job: str) -> None:
        """Drop a reservation whose time is over by what its lease says now: it may have been kept meanwhile."""
        release(self._book, job)

    def release(self, job: str) -> None:
        """End a reservation that no process holds; NotDone if there is none, ContainerRunning for that of a job."""
        lease = find_reservation(self._state, job, self._processes)
        if lease is None:
            raise no_reservation(self._state, job)
        if not lease.until or lease.reservation:
            raise ContainerRunning(f"the job {name_of(job)} is still running", hint="stop it first")
        self.take_back(job)

    def _reserve(self, job: str, request: str, pid: int, token: str, **terms: Any) -> Sequence[GpuLocation]:
        """Reserve as `reserve_by_name` does, on its `terms`."""
        gpus = reserve_by_name(self._book, job, request, pid=pid, token_digest=digest_of(token), **terms)
        self._open(job, gpus)
        return gpus

    def _claim_inside(self, job: str, reservation: str, process: ProcessId) -> Claim:
        """Return the claim of a job for the GPUs of a reservation; NotDone if there is none."""
        lease = find_reservation(self._state, reservation, self._processes)
        # What holds the GPUs of a job that is ended is part of that job.
        if lease is None or not lease.until or lease.reservation:
            raise no_reservation(self._state, reservation)
        return Claim(
            holder=Holder(container_id=job, creator=process),
            wanted=[gpu for gpu in locate_gpus(self._state.host) if gpu.key in lease.gpus],
            ways=(BY_API,),
            group=lease.group,
            limit=lease.until,
            reservation=reservation,
        )

    def _open(self, job: str, gpus: Sequence[GpuLocation]) -> None:
        """Let the owner of a job open what it was given; where that cannot be, it was given nothing."""
        try:
            self._opened.open(owner_of_job(job), gpus)
        except FileError:
            self.take_back(job)
            raise
        self.given[job] = tuple(gpu.number for gpu in gpus)

    def _grant(self, gpus: Sequence[GpuLocation], token: str, limit: float) -> JobGrant:
        environment = build_environment(gpus, locate_gpus(self._state.host), token)
        seconds = max(1, round(limit - self._now())) if limit else 0
        return JobGrant(numbers=tuple(gpu.number for gpu in gpus), environment=environment, seconds=seconds)


def job_id(owner: int, name: str) -> str:
    """Return the id of somebody's job or reservation: names belong to a user, and those of root are plain.

    So are those of the user whose own process this is, who has a state of their own.
    """
    return name if owner in (0, os.geteuid()) else f"{owner}/{name}"


def name_of(job: str) -> str:
    """Return the name of a job without its owner."""
    return job.rpartition("/")[2]


def no_reservation(state: State, job: str, what: str = "reservation") -> NotDone:
    """Return the error for a name that is none of a reservation, or of no job either."""
    name = name_of(job)
    if any(each.job == job for each in read_ended(state)):
        return NotDone(f"the restart of this machine ended the reservation {name}", hint="reserve GPUs again")
    return NotDone(f"there is no {what} {name}", hint="see 'amd-ctk queue list'")
