"""The jobs and reservations that have GPUs now, as values."""

from __future__ import annotations

from amd_gpu_tracker.life.lease_scan import find_jobs
from amd_gpu_tracker.records.lease import BY_API
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from amd_gpu_tracker.life.status import ContainerUse, Status
    from amd_gpu_tracker.records.lease import Lease


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


def running_jobs(status: Status, leases: Sequence[Lease]) -> list[RunningJob]:
    """Return the jobs and reservations that have GPUs, also lost ones, oldest first; `leases` are all that live.

    A container that goes on when the command of its job has ended stands for the job.
    """
    by_id = {each.container_id: each for each in leases}
    job_by_id = find_jobs(leases)
    containers: dict[str, list[str]] = {}
    gpus_by_job: dict[str, set[int]] = {}
    use_by_job: dict[str, ContainerUse] = {}
    for gpu in status.tracked:
        for use in gpu.containers:
            job = use.container_id if BY_API in use.ways else job_by_id.get(use.container_id, "")
            if not job:
                continue
            gpus_by_job.setdefault(job, set()).add(gpu.number)
            if job == use.container_id or job not in by_id:
                use_by_job.setdefault(job, use)
            if job != use.container_id:
                containers.setdefault(job, []).append(use.container_id)
    jobs = [
        _running_job(use, by_id.get(use.container_id), gpus_by_job[job], containers.get(job, ()))
        for job, use in use_by_job.items()
    ]
    return sorted(jobs, key=lambda job: (job.since, job.name))


def _running_job(
    use: ContainerUse, lease: Lease | None, numbers: Iterable[int], containers: Iterable[str]
) -> RunningJob:
    has_process = lease is not None and BY_API in lease.ways and not lease.until
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
