"""The jobs and reservations that have GPUs now, as values."""

from __future__ import annotations

from amd_gpu_tracker.life.lease_scan import find_jobs
from amd_gpu_tracker.records.lease import BY_API, Lease
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from amd_gpu_tracker.life.status import ContainerUse, OwnedLease, Status

    # The user as in OwnedLease, and the ids of a container (its root and id) and of a job.
    ContainerKey = tuple[int | None, str, str]
    JobKey = tuple[int | None, str]


class RunningJob(Value):
    """A job or reservation that has GPUs.

    Attributes:
        name: Its name, without the number of its owner.
        person: Uid of its owner.
        gpus: Numbers of its GPUs.
        since: When it got them, in seconds since 1970 (UTC).
        pid: Its process; None for a reservation, and for a container whose job has ended.
        containers: Ids of the containers that run in it.
        until: When it is ended, or ends by itself, in seconds since 1970 (UTC); None where it has no end.
        idle_since: Since when its GPUs are not used, in seconds since 1970 (UTC); None where that is not known.
        preemptible_at: From when on it is ended for those who wait; None where it is not.
    """

    name: str
    person: int
    gpus: tuple[int, ...]
    since: float
    pid: int | None = None
    containers: tuple[str, ...] = ()
    until: float | None = None
    idle_since: float | None = None
    preemptible_at: float | None = None


def running_jobs(status: Status, leases: Sequence[OwnedLease]) -> list[RunningJob]:
    """Return the jobs and reservations that have GPUs, also lost ones, oldest first; `leases` are all that live.

    A container that goes on when the command of its job has ended stands for the job.
    """
    by_id = {(user, each.container_id): each for each, user in leases if BY_API in each.ways}
    job_by_key = _find_jobs_of_all(leases)
    containers: dict[JobKey, list[str]] = {}
    gpus_by_job: dict[JobKey, set[int]] = {}
    use_by_job: dict[JobKey, ContainerUse] = {}
    for gpu in status.tracked:
        for use in gpu.containers:
            is_job = BY_API in use.ways
            job = (use.user, use.container_id) if is_job else job_by_key.get((use.user, use.root, use.container_id))
            if job is None:
                continue
            gpus_by_job.setdefault(job, set()).add(gpu.number)
            if is_job or job not in by_id:
                use_by_job.setdefault(job, use)
            if not is_job:
                containers.setdefault(job, []).append(use.container_id)
    jobs = [
        _running_job(use, by_id.get(job), gpus_by_job[job], containers.get(job, ())) for job, use in use_by_job.items()
    ]
    return sorted(jobs, key=lambda job: (job.since, job.name))


def _find_jobs_of_all(leases: Sequence[OwnedLease]) -> dict[ContainerKey, JobKey]:
    """Return the job of each container that was given one; that of a user's own engine has jobs of this user only."""
    found: dict[ContainerKey, JobKey] = {}
    by_root = [lease for lease, user in leases if user is None and BY_API in lease.ways]
    for user in {user for _, user in leases}:
        own = [lease for lease, whose in leases if whose == user]
        given = [] if user is None else [each for each in by_root if each.person == user]
        # A job of the user's own state goes before one of the service.
        ids = {each.container_id for each in given} - {each.container_id for each in own if BY_API in each.ways}
        for (root, container_id), job in find_jobs([*given, *own]).items():
            found[user, root, container_id] = (None if job in ids else user, job)
    return found


def _running_job(
    use: ContainerUse, lease: Lease | None, numbers: Iterable[int], containers: Iterable[str]
) -> RunningJob:
    has_process = lease is not None and not lease.until
    return RunningJob(
        name=use.job or use.container_id,
        person=use.person or 0,
        gpus=tuple(sorted(numbers)),
        since=use.since,
        pid=(lease.init or lease.creator).pid if lease and has_process else None,
        containers=tuple(sorted(set(containers))),
        until=use.until,
        idle_since=use.idle_since,
        preemptible_at=use.preemptible_at,
    )
