"""The jobs and reservations that have GPUs now, as values."""

from __future__ import annotations

from amd_gpu_tracker.book.lease import BY_API, JOB, Lease, held_by_name
from amd_gpu_tracker.leases.lease_scan import find_jobs
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from amd_gpu_tracker.leases.status import ContainerUse, OwnedLease, Status

    # The user as in OwnedLease; then the root and id of a container, or the id of a job.
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
        until: Its end or time limit, in seconds since 1970 (UTC); None without one.
        idle_since: Since when its GPUs have been idle, in seconds since 1970 (UTC); None if unknown.
        preemptible_at: From when it may end for waiting jobs; None for never.
        vram_mb: The memory of each GPU that it has, in MiB; 0 for whole GPUs.
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
    vram_mb: int = 0


def running_jobs(status: Status, leases: Sequence[OwnedLease]) -> list[RunningJob]:
    """Return the jobs and reservations with GPUs, also lost ones, oldest first; `leases` are all living ones.

    A container that goes on after the command of its job has ended represents the job.
    """
    by_id = {(user, each.container_id): each for each, user in leases if each.is_by_name}
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
    """Return the job of each container that was given one; a user's own engine has only that user's jobs."""
    found: dict[ContainerKey, JobKey] = {}
    by_root = held_by_name(lease for lease, user in leases if user is None)
    for user in {user for _, user in leases}:
        own = [lease for lease, whose in leases if whose == user]
        given = [] if user is None else [each for each in by_root if each.person == user]
        # A job in the user's own state takes precedence over one of the service.
        ids = {each.container_id for each in given} - {each.container_id for each in held_by_name(own)}
        for (root, container_id), job in find_jobs([*given, *own]).items():
            found[user, root, container_id] = (None if job in ids else user, job)
    return found


def _running_job(
    use: ContainerUse, lease: Lease | None, numbers: Iterable[int], containers: Iterable[str]
) -> RunningJob:
    is_job = lease is not None and lease.kind == JOB
    return RunningJob(
        name=use.job or use.container_id,
        person=use.person or 0,
        gpus=tuple(sorted(numbers)),
        since=use.since,
        pid=(lease.init or lease.creator).pid if lease and is_job else None,
        containers=tuple(sorted(set(containers))),
        until=use.until,
        idle_since=use.idle_since,
        preemptible_at=use.preemptible_at,
        vram_mb=use.vram_mb,
    )
