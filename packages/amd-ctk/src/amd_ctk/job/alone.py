"""Reserve GPUs and wait for them on a host without the service that gives out GPUs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from amd_ctk.companions import SHARING, require
from amd_ctk.job.start import GivenGpus, PlannedJob
from amd_device_spec.settings import read_settings
from amd_device_spec.slurm.job_gpus import rules_in_job, with_gpus_of_job
from amd_gpu_tracker import CommandLock, GpusRefused, Reservation, Tracker
from amd_gpu_tracker.book.job_ids import require_name
from amd_gpu_tracker.times import parse_duration
from amdgpu_discovery.choices.rules import ChoiceRules
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.host import Host


def reserve(host: Host, job: PlannedJob, *, notify: Callable[[str], None]) -> Reservation:
    """Reserve a job's GPUs, in a Slurm job among its GPUs; `notify` is called with what the job waits for."""
    rules = _find_rules(host, job.request)
    with _named_with_job(rules):
        require_name(job.name)
        tracker = Tracker(host, rules=rules, lock=CommandLock)
        if job.wait is None:
            return tracker.reserve(job.request, name=job.name, vram_mb=job.part_mib)
        timeout = parse_duration(job.wait)
        return tracker.wait(job.request, name=job.name, timeout=timeout, tell=notify, vram_mb=job.part_mib)


def preview(host: Host, job: PlannedJob) -> GivenGpus:
    """Return what `reserve` would reserve now, or what it would wait for as a message; it raises the same errors."""
    rules = _find_rules(host, job.request)
    tracker = Tracker(host, rules=rules)
    with _named_with_job(rules):
        if job.wait is not None:
            _require_possible(tracker, job.request)
        try:
            gpus, environment = tracker.preview(job.request, name=job.name, vram_mb=job.part_mib)
        except GpusRefused as error:
            if job.wait is None:
                raise
            return GivenGpus(message=error.message)
    return GivenGpus(numbers=tuple(gpu.number for gpu in gpus), environment=environment)


def _require_possible(tracker: Tracker, request: str) -> None:
    """Raise an error if waiting can never fulfil a request; NotInstalled."""
    require(SHARING)
    from amd_gpu_sharing import SharedJobs

    SharedJobs(tracker).require_possible(request)


def _find_rules(host: Host, request: str) -> ChoiceRules:
    return rules_in_job(read_settings(host).choice_rules(), request, host, os.environ)


@contextmanager
def _named_with_job(rules: ChoiceRules) -> Iterator[None]:
    """In a Slurm job, name its GPUs in the error about a request that cannot be met."""
    try:
        yield
    except RequestError as error:
        if rules.numbers is None:
            raise
        raise with_gpus_of_job(error, rules.numbers) from error
