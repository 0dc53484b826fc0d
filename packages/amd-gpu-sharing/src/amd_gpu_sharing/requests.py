"""What commands ask of the service that gives out GPUs, or do themselves if there is no service."""

from __future__ import annotations

import os

from amd_gpu_sharing.service import GivenGpus, JobRequest, Service
from amd_gpu_tracker import NotPermitted, Tracker
from amd_gpu_tracker.errors import NotDone, ServiceMissing
from amd_gpu_tracker.times import parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from amdgpu_discovery.host import Host

SLURM_PREFIX = "SLURM_"
# What root's commands do themselves where the service does not run.
WITHOUT_SERVICE = ("keep", "end", "release")


def reserve(
    host: Host,
    name: str,
    request: str,
    seconds: float,
    *,
    wait: str | None,
    start: float | None = None,
    notify: Callable[[str], None],
) -> GivenGpus:
    """Reserve GPUs for `seconds`, from now or from `start` in seconds since 1970 (UTC).

    `wait` is the longest time in the queue, "" for no limit, None to wait for nothing. `notify` is called
    with messages about the wait.
    """
    numbers = numbers_of_job(host, request)
    timeout = parse_duration(wait or "")
    wanted = JobRequest(name=name, gpus=request, seconds=int(seconds), numbers=numbers, start=start)
    return Service(host).reserve(wanted.replace(wait=wait is not None), timeout=timeout, notify=notify)


def change(host: Host, verb: str, name: str, owner: int | None, *, seconds: int = 0) -> float:
    """Change a job or reservation with a verb of `Service.change`; for keep, end and release root needs no service.

    Return the number of seconds until it ends, 0 if it has no end.
    """
    try:
        return Service(host).change(verb, name, owner, seconds=seconds)
    except ServiceMissing:
        if os.geteuid() or verb not in WITHOUT_SERVICE:
            raise
    from amd_gpu_sharing.shared_jobs import SharedJobs
    from amd_gpu_tracker import CommandLock

    jobs = SharedJobs(Tracker(host, lock=CommandLock))
    if verb == "keep":
        return jobs.keep(name, owner=owner, seconds=seconds)
    (jobs.end if verb == "end" else jobs.release)(name, owner=owner)
    return 0.0


def cancel_job(host: Host, name: str, owner: int | None) -> None:
    """Remove a job from the queue, that of `owner` if one is named; NotDone, NotPermitted."""
    missing = NotDone(f"no job {name} waits for GPUs", hint="see 'amd-ctk queue'")
    try:
        if Service(host).cancel(name, owner):
            return
    except NotDone as error:
        missing = error
    # The job may be waiting without the service.
    if not _drop_ticket(host, name):
        raise missing


def put_first(host: Host, name: str, owner: int | None) -> None:
    """Put a waiting job before all others, that of `owner` if one is named; NotDone, NotPermitted, ServiceMissing."""
    Service(host).change("first", name, owner)


def numbers_of_job(host: Host, request: str) -> tuple[int, ...] | None:
    """Return the GPUs of the batch job in which this process runs, None outside of a job."""
    if not any(name.startswith(SLURM_PREFIX) for name in os.environ):
        return None
    from amd_device_spec.slurm.job_gpus import numbers_in_job

    return numbers_in_job(request, host, os.environ)


def _drop_ticket(host: Host, name: str) -> bool:
    """Remove a job from the queue by its ticket; False if it has none. NotPermitted if it is another user's."""
    try:
        return Tracker(host).cancel(name)
    except NotPermitted:
        raise NotPermitted(
            f"the job {name} is another user's", hint=f"root removes it: 'sudo amd-ctk end {name} --user=NAME'"
        ) from None
