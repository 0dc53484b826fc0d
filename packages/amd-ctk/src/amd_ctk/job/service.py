"""Get GPUs from the service that gives them out, or reserve them directly if there is no service."""

from __future__ import annotations

from amd_ctk.companions import SHARING, is_installed, require, warn_of_rules
from amd_ctk.job.start import GivenGpus
from amd_gpu_tracker.errors import ServiceMissing
from amd_gpu_tracker.times import parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from amd_ctk.job.start import PlannedJob
    from amd_gpu_sharing import GivenGpus as Answer
    from amd_gpu_sharing import JobRequest, Service
    from amd_gpu_tracker import Reservation
    from amdgpu_discovery.host import Host


def hold(host: Host, job: PlannedJob, *, notify: Callable[[str], None]) -> GivenGpus | Reservation:
    """Reserve GPUs for this process until it ends, through the service if there is one, else directly.

    `notify` is called with what the job waits for.
    """
    if service := _find_service(host, job):
        request = _request_for(host, job)
        given = service.run(request, timeout=parse_duration(job.wait or ""), notify=notify)
        if given is not None:
            return _given(given)
    _require_no_service(job)
    # Jobs that wait through the service do not need this import.
    from amd_ctk.job import alone

    return alone.reserve(host, job, notify=notify)


def preview(host: Host, job: PlannedJob) -> GivenGpus:
    """Return what `hold` would reserve now, or what it would wait for as a message; it raises the same errors."""
    service = _find_service(host, job)
    given = service.preview(_request_for(host, job)) if service else None
    if given is not None:
        return _given(given)
    _require_no_service(job)
    from amd_ctk.job import alone

    return alone.preview(host, job)


def _find_service(host: Host, job: PlannedJob) -> Service | None:
    """Return the service if it has a socket; NotInstalled if only amd-gpu-sharing can give this job its GPUs."""
    if not is_installed(SHARING):
        if job.reservation or job.is_spare or job.wait is not None:
            require(SHARING)
        warn_of_rules(host)
        return None
    from amd_gpu_sharing import Service

    service = Service(host)
    if service.has_socket():
        return service
    service.require_not_failed()
    return None


def _require_no_service(job: PlannedJob) -> None:
    """Raise ServiceMissing for a job that only the service can give GPUs."""
    if job.reservation or job.is_spare:
        raise ServiceMissing


def _given(answer: Answer) -> GivenGpus:
    return GivenGpus(
        numbers=answer.numbers, environment=answer.environment, message=answer.message, seconds=answer.seconds
    )


def _request_for(host: Host, job: PlannedJob) -> JobRequest:
    from amd_gpu_sharing import JobRequest, numbers_of_job

    return JobRequest(
        name=job.name,
        gpus=job.request,
        wait=job.wait is not None,
        reservation=job.reservation,
        numbers=numbers_of_job(host, job.request),
        spare=job.is_spare or None,
        vram_mb=job.part_mib or None,
    )
