"""Reserve GPUs, wait for them and keep them, where no service gives them to everybody."""

from __future__ import annotations

import os
from contextlib import contextmanager

from amd_device_spec.settings import read_settings
from amd_device_spec.slurm.job_gpus import rules_in_job, with_gpus_of_job
from amd_gpu_tracker import CommandLock, GpusRefused, Tracker
from amd_gpu_tracker.waiting.sentences import parse_duration
from amd_gpu_tracker.waiting.ticket import require_name
from amdgpu_discovery.errors import RequestError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from amd_gpu_tracker import Reservation
    from amdgpu_discovery.choices.rules import ChoiceRules
    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.host import Host


def reserve(host: Host, name: str, request: str, wait: str | None, *, tell: Callable[[str], None]) -> Reservation:
    """Reserve as everywhere, in a job of Slurm among the job's GPUs; `tell` is called with what is waited for."""
    rules = _find_rules(host, request)
    with _named_with_job(rules):
        require_name(name)
        tracker = Tracker(host, rules=rules, lock=CommandLock)
        if wait is None:
            return tracker.hold(name, request)
        return tracker.wait(name, request, timeout=parse_duration(wait), tell=tell)


def preview(
    host: Host, name: str, request: str, *, waits: bool
) -> tuple[Sequence[GpuLocation], dict[str, str]] | GpusRefused:
    """Return what `reserve` would reserve now and its variables, or for what it would wait; errors as that."""
    rules = _find_rules(host, request)
    tracker = Tracker(host, rules=rules)
    with _named_with_job(rules):
        if waits:
            tracker.require_possible(request)
        try:
            return tracker.preview(name, request)
        except GpusRefused as error:
            if waits:
                return error
            raise


def keep(host: Host, name: str, owner: int | None, seconds: int) -> float:
    """Let a reservation or job last for `seconds` from now; return in how many it ends, 0 where it has no end."""
    return Tracker(host, lock=CommandLock).keep(name, owner=owner, seconds=seconds)


def _find_rules(host: Host, request: str) -> ChoiceRules:
    return rules_in_job(read_settings(host).choice_rules(), request, host, os.environ)


@contextmanager
def _named_with_job(rules: ChoiceRules) -> Iterator[None]:
    """In a job of Slurm, name its GPUs where a request cannot be met."""
    try:
        yield
    except RequestError as error:
        if rules.numbers is None:
            raise
        raise with_gpus_of_job(error, rules.numbers) from error
