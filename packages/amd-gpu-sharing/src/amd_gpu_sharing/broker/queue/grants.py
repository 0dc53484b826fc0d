"""Give GPUs to a user's process, or reserve them for later: one lease each, under the tracker's lock."""

from __future__ import annotations

import time
from collections.abc import Sequence

from amd_gpu_sharing.broker.jobs.job_processes import gpus_of
from amd_gpu_sharing.broker.jobs.job_time import no_reservation
from amd_gpu_sharing.broker.requests.demand import Demand, numbers_in
from amd_gpu_sharing.broker.requests.protocol import DONE, GRANTED, Answer
from amd_gpu_sharing.node_access.users import NodeUsers
from amd_gpu_sharing.tickets import Ticket
from amd_gpu_tracker.book.job_ids import job_id, name_of, owner_of
from amd_gpu_tracker.book.kinds import kind_of
from amd_gpu_tracker.book.lease import BY_API, RESERVATION, Holder, Lease, ProcessId
from amd_gpu_tracker.claims.by_name import preview_by_name, reserve_by_name
from amd_gpu_tracker.claims.claim import Book, Claim, LeaseTerms
from amd_gpu_tracker.claims.handover import build_environment, digest_of, find_reservation, new_token
from amd_gpu_tracker.claims.parts import has_room, with_memory
from amd_gpu_tracker.claims.release import release
from amd_gpu_tracker.claims.reservation import preview, reserve
from amd_gpu_tracker.errors import ContainerRunning, Message, NotDone, placeholder
from amd_gpu_tracker.leases.lease_scan import scan_leases
from amd_gpu_tracker.leases.processes import FIRST_PROCESS
from amdgpu_discovery.errors import FileError
from amdgpu_discovery.gpu import GpuLocation
from amdgpu_discovery.numbering import locate_gpus


class Grants:
    """Gives out the GPUs of one host, and takes them back."""

    def __init__(self, book: Book, node_users: NodeUsers) -> None:
        self._book, self._state, self._processes = book, book.state, book.processes
        self._now, self._node_users = book.processes.now, node_users
        # Jobs with GPUs, and the numbers of these; needed to log the ends of jobs.
        self.gpus_by_job: dict[str, tuple[int, ...]] = {}
        # Leases that no view has yet. A job may end before the next one, and leave processes.
        self.unseen: list[Lease] = []

    def give(self, demand: Demand, among: int, *, is_waiting: bool = False) -> Answer:
        """Give the GPUs of a request, some of `among` (bits), to the process that asks.

        It has them for as long as its permission allows. A reservation needs no process.
        A spare job ends as soon as another one waits for its GPUs. Errors as `Tracker.reserve`.
        """
        if demand.reserved_seconds:
            return self._reserve(demand, among, is_waiting=is_waiting)
        token = new_token(demand.job)
        limit = self._limit_of(demand)
        terms = LeaseTerms(limit=limit, preemptible=self._now() if demand.is_spare else 0.0)
        gpus = self._reserve_by_name(demand, among, token, demand.waiter.pid, terms, is_waiting=is_waiting)
        return self._granted(gpus, token, limit)

    def preview(self, demand: Demand, among: int) -> Answer:
        """Return what `give` would return now, or raise its error."""
        numbers = numbers_in(among)
        gpus = preview_by_name(
            *(self._book, demand.job, demand.request), rules=demand.rules, among=numbers, vram_mb=demand.vram_mb
        )
        return self._granted(gpus, "", self._limit_of(demand))

    def give_inside(self, job: str, reservation: str, process: ProcessId, *, person: int, vram_mb: int = 0) -> Answer:
        """Give a process the GPUs of a reservation, until the reservation ends.

        NotDone or NotPermitted if there is no such reservation, GpusRefused if another job has the GPUs, RequestError
        if one of them has less memory than `vram_mb`.
        """
        token = new_token(job)
        claim = self._claim_inside(job, reservation, process, vram_mb)
        claim = claim.replace(token_digest=digest_of(token), person=person)
        if not reserve(self._book, claim):
            raise ContainerRunning(f"{job} already has GPUs", hint="give each job its own name")
        self._open(job, claim.wanted)
        return self._granted(claim.wanted, token, claim.limit)

    def preview_inside(self, job: str, reservation: str, process: ProcessId, *, vram_mb: int = 0) -> Answer:
        """Return what `give_inside` would return now, or raise its error."""
        claim = self._claim_inside(job, reservation, process, vram_mb)
        preview(self._book, claim)
        return self._granted(claim.wanted, "", claim.limit)

    def repeat_reservation(self, ticket: Ticket) -> Answer | None:
        """Repeat the answer about a reservation that was made while this ticket waited; None if there is none."""
        lease = self._state.read_lease(self._state.lease_path(("", job_id(ticket.owner, ticket.name))))
        until = kind_of(lease).lasts_until if lease and lease.since >= ticket.since else None
        return _reserved(gpus_of(lease, self._state.host), round(until - self._now())) if lease and until else None

    def repeat_grant(self, job: str, process: ProcessId) -> Answer | None:
        """Repeat a grant whose answer the process may have missed; None if it was granted nothing."""
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
        return self._granted(gpus_of(lease, self._state.host), token, lease.limit)

    def move_to_container(self, job: Lease, container: ProcessId) -> bool:
        """Let a job continue in a container after its command has ended; False if others have its GPUs by now."""
        path = self._state.lease_path(job.key)
        with self._book.locked():
            found = self._state.read_lease(path)
            living = scan_leases(self._state, self._processes, self._state.lease_paths(locked=True)).living
            others = [each for each in job.rivals(living) if each.key != job.key]
            is_left = has_room(self._state.host, self._state.read_policy(), job, others)
            if not is_left or (found is not None and found.creator != job.creator):
                return False
            self._state.write_lease((found or job).replace(init=container))
        return True

    def require_free_name(self, job: str) -> None:
        """Raise ContainerRunning if a job of this name, or its container, runs: better now than after the wait."""
        living = scan_leases(self._state, self._processes, self._state.lease_paths()).living
        if any(lease.job == job for lease in living):
            raise ContainerRunning(f"{name_of(job)} already has GPUs", hint="give each reservation its own name")

    def revoke(self, job: str) -> None:
        """Drop a lease, even if its process is still running."""
        lease = self._state.read_lease(self._state.lease_path(("", job)))
        release(self._book, job, creators=(lease.creator,) if lease else ())

    def require_own(self, name: str, person: int | None, hint: str) -> None:
        """Raise NotDone if other users, but not root, have this reservation; `person` is the user who became root."""
        living = scan_leases(self._state, self._processes, self._state.lease_paths()).living
        named = [each for each in living if name_of(each.container_id) == name]
        owners = {owner_of(each.container_id) for each in named if each.kind == RESERVATION}
        if owners and 0 not in owners:
            whose = " and ".join(map(placeholder, sorted(owners)))
            hint = "run the command without sudo" if person in owners else hint
            message = Message(text=f"the reservation {name} belongs to {whose}", people=tuple(owners))
            raise NotDone(message, hint=hint)

    def release(self, job: str, *, by: int = 0) -> None:
        """End a reservation that no process holds; ContainerRunning if it is a job.

        NotDone or NotPermitted if there is none.
        """
        lease = find_reservation(self._state, job, self._processes)
        if lease is None:
            raise no_reservation(self._state, job, by=by)
        if lease.kind != RESERVATION:
            raise ContainerRunning(f"the job {name_of(job)} is still running", hint="stop it first")
        self.revoke(job)

    def _reserve_by_name(
        self, demand: Demand, among: int, token: str, pid: int, terms: LeaseTerms, *, is_waiting: bool = False
    ) -> Sequence[GpuLocation]:
        """Reserve GPUs as `reserve_by_name` does; add the token, the person and the group to the terms."""
        person, group = demand.person_known, demand.permission.group
        terms = terms.replace(token_digest=digest_of(token), person=person, group=group, vram_mb=demand.vram_mb)
        gpus = reserve_by_name(
            self._book,
            demand.job,
            demand.request,
            pid=pid,
            rules=demand.rules,
            terms=terms,
            is_waiting=is_waiting,
            among=numbers_in(among),
        )
        self._open(demand.job, gpus)
        return gpus

    def _reserve(self, demand: Demand, among: int, *, is_waiting: bool) -> Answer:
        seconds = demand.most_seconds
        token = new_token(demand.job)
        terms = LeaseTerms(until=self._now() + seconds)
        gpus = self._reserve_by_name(demand, among, token, FIRST_PROCESS, terms, is_waiting=is_waiting)
        return _reserved(gpus, seconds)

    def _claim_inside(self, job: str, reservation: str, process: ProcessId, vram_mb: int) -> Claim:
        """Return the claim of a job for the GPUs of a reservation; errors as `give_inside`."""
        lease = find_reservation(self._state, reservation, self._processes)
        if lease is None or lease.kind != RESERVATION:
            raise no_reservation(self._state, reservation, by=owner_of(job))
        wanted = gpus_of(lease, self._state.host)
        if vram_mb:
            with_memory(self._state.host, wanted, vram_mb)
        return Claim(
            holder=Holder(container_id=job, creator=process),
            wanted=wanted,
            ways=(BY_API,),
            group=lease.group,
            limit=lease.until,
            reservation=reservation,
        )

    def _open(self, job: str, gpus: Sequence[GpuLocation]) -> None:
        """Let the owner of a job open its GPUs; if that fails, take the GPUs back."""
        try:
            self._node_users.open(owner_of(job), gpus)
        except FileError:
            self.revoke(job)
            raise
        self.gpus_by_job[job] = tuple(gpu.number for gpu in gpus)
        lease = self._state.read_lease(self._state.lease_path(("", job)))
        self.unseen += [lease] if lease else []

    def _limit_of(self, demand: Demand) -> float:
        seconds = demand.permission.most_seconds(time.time())
        return self._now() + seconds if seconds else 0.0

    def _granted(self, gpus: Sequence[GpuLocation], token: str, limit: float) -> Answer:
        """Return the answer with the GPUs, the variables that name them, and the time limit."""
        environment = build_environment(gpus, locate_gpus(self._state.host), token)
        seconds = max(1, round(limit - self._now())) if limit else 0
        numbers = tuple(gpu.number for gpu in gpus)
        return Answer(kind=GRANTED, numbers=numbers, environment=environment, seconds=seconds)


def _reserved(gpus: Sequence[GpuLocation], seconds: int) -> Answer:
    return Answer(kind=DONE, numbers=tuple(gpu.number for gpu in gpus), seconds=max(1, seconds))
