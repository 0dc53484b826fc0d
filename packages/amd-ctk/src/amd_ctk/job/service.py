"""Get GPUs from the service that gives them out, or reserve them directly if there is no service."""

from __future__ import annotations

import os

from amd_gpu_tracker import NotPermitted, Tracker
from amd_gpu_tracker.errors import NotDone, ServiceMissing
from amd_gpu_tracker.service import GivenGpus, JobRequest, Service
from amd_gpu_tracker.times import format_seconds, parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from amd_ctk.job.start import PlannedJob
    from amd_gpu_tracker import Reservation
    from amdgpu_discovery.host import Host

SLURM_PREFIX = "SLURM_"


def hold(host: Host, job: PlannedJob, *, notify: Callable[[str], None]) -> GivenGpus | Reservation:
    """Reserve GPUs for this process until it ends, through the service if there is one, else directly.

    `notify` is called with what the job waits for.
    """
    service, given = Service(host), None
    if service.has_socket():
        given = service.run(_request_for(host, job), timeout=parse_duration(job.wait or ""), notify=notify)
    if given is not None:
        return given
    _require_no_service(job)
    # Jobs that wait through the service do not need this import.
    from amd_ctk.job import alone

    return alone.reserve(host, job, notify=notify)


def preview(host: Host, job: PlannedJob) -> GivenGpus:
    """Return what `hold` would reserve now, or what it would wait for as a message; it raises the same errors."""
    service = Service(host)
    given = service.preview(_request_for(host, job)) if service.has_socket() else None
    if given is not None:
        return given
    _require_no_service(job)
    from amd_ctk.job import alone

    return alone.preview(host, job)


def reserve(host: Host, name: str, request: str, seconds: float) -> tuple[int, ...]:
    """Reserve GPUs for `seconds`, and return their numbers."""
    numbers = _numbers_of_job(host, request)
    return Service(host).reserve(JobRequest(name=name, gpus=request, seconds=int(seconds), numbers=numbers))


def change(host: Host, verb: str, name: str, owner: int | None, *, seconds: int = 0) -> float:
    """Change a job or reservation with the verbs keep, end and release of `Service.change`; root needs no service.

    Return the number of seconds until it ends, 0 if it has no end.
    """
    try:
        return Service(host).change(verb, name, owner, seconds=seconds)
    except ServiceMissing:
        if os.geteuid():
            raise
    from amd_gpu_tracker import CommandLock

    jobs = Tracker(host, lock=CommandLock).shared_jobs
    if verb == "keep":
        return jobs.keep(name, owner=owner, seconds=seconds)
    (jobs.end if verb == "end" else jobs.release)(name, owner=owner)
    return 0.0


def describe_grant(numbers: Sequence[int], seconds: float | None) -> str:
    """Return which GPUs a job got, and after how long if it had to wait."""
    *first, last = map(str, numbers)
    gpus = f"GPUs {', '.join(first)} and {last}" if first else f"GPU {last}"
    return gpus if seconds is None else f"{gpus} after {format_seconds(seconds)}"


def _require_no_service(job: PlannedJob) -> None:
    """Raise ServiceMissing for a job that only the service can give GPUs."""
    if job.reservation or job.is_spare:
        raise ServiceMissing


def _request_for(host: Host, job: PlannedJob) -> JobRequest:
    return JobRequest(
        name=job.name,
        gpus=job.request,
        wait=job.wait is not None,
        reservation=job.reservation,
        numbers=_numbers_of_job(host, job.request),
        spare=job.is_spare or None,
    )


def _numbers_of_job(host: Host, request: str) -> tuple[int, ...] | None:
    """Return the GPUs of the batch job in which this process runs, None outside of a job."""
    if not any(name.startswith(SLURM_PREFIX) for name in os.environ):
        return None
    from amd_device_spec.slurm.job_gpus import numbers_in_job

    return numbers_in_job(request, host, os.environ)


def cancel_job(host: Host, name: str, owner: int | None) -> None:
    """Remove a job from the queue, that of `owner` if one is named; NotDone, NotPermitted."""
    missing = NotDone(f"no job {name} waits for GPUs", hint="see 'amd-ctk queue list'")
    try:
        if Service(host).cancel(name, owner):
            return
    except NotDone as error:
        missing = error
    # The job may be waiting without the service.
    if not _drop_ticket(host, name):
        raise missing


def _drop_ticket(host: Host, name: str) -> bool:
    """Remove a job from the queue by its ticket; False if it has none. NotPermitted if it is another user's."""
    try:
        return Tracker(host).cancel(name)
    except NotPermitted:
        raise NotPermitted(
            f"the job {name} is another user's", hint=f"root removes it: 'sudo amd-ctk queue cancel {name} --user=NAME'"
        ) from None
