"""Ask the service that gives GPUs to everybody: for a job, for a reservation, to give back and to cancel."""

from __future__ import annotations

import os

from amd_gpu_tracker import NotPermitted, Tracker, WaitRefused
from amd_gpu_tracker.broker.client import Refused, ServiceGone, ask
from amd_gpu_tracker.broker.protocol import (
    CANCEL,
    END,
    KEEP,
    MOST_SECONDS,
    PREVIEW,
    RELEASE,
    RESERVE,
    RUN,
    Answer,
    Request,
    find_socket,
)
from amd_gpu_tracker.errors import NotDone
from amd_gpu_tracker.life.people import behind_sudo
from amd_gpu_tracker.waiting.sentences import parse_duration
from amd_gpu_tracker.waiting.ticket import require_name
from amdgpu_discovery.errors import ToolkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from amdgpu_discovery.host import Host

SLURM_PREFIX = "SLURM_"


class ServiceMissing(ToolkitError):
    """What only the service can do, on a host where it does not run."""

    exit_code = 3


class ServiceHold:
    """GPUs that this process has, for so many seconds (0 for no limit); they are given back when it ends."""

    def __init__(self, host: Host, answer: Answer) -> None:
        self._host = host
        self.numbers = answer.numbers
        self.environment = dict(answer.environment)
        self.seconds = answer.seconds

    @property
    def gpus(self) -> list[Any]:
        """Return the GPUs."""
        from amdgpu_discovery.numbering import locate_gpus

        return [gpu for gpu in locate_gpus(self._host) if gpu.number in self.numbers]

    def release(self) -> None:
        """Do nothing: the end of this process gives them back."""


def hold(
    host: Host,
    name: str,
    request: str,
    wait: str | None,
    inside: str,
    *,
    is_spare: bool = False,
    tell: Callable[[str], None],
) -> ServiceHold | None:
    """Return the GPUs of a request, or those of the reservation `inside`; None where there is no service.

    What is spare ends as soon as somebody waits for it.
    """
    path = find_socket(host)
    if not path:
        return None
    require_name(name)
    asked = _request_for(RUN, host, name, request, inside, waits=wait is not None, is_spare=is_spare)
    timeout = None if wait is None else parse_duration(wait)
    try:
        answer = ask(path, asked, timeout=timeout, tell=tell)
    except ServiceGone:
        if os.geteuid():
            raise
        # It was disabled; root needs none.
        return None
    return ServiceHold(host, answer) if answer else None


def preview(host: Host, name: str, request: str, inside: str, *, waits: bool, is_spare: bool) -> Answer | None:
    """Return what `hold` would be answered now, None where there is no service; Refused."""
    path = find_socket(host)
    if not path:
        return None
    return ask(path, _request_for(PREVIEW, host, name, request, inside, waits=waits, is_spare=is_spare))


def reserve(host: Host, name: str, request: str, seconds: float) -> tuple[int, ...]:
    """Reserve GPUs for some time, and return their numbers."""
    numbers = _numbers_of_job(host, request, os.environ)
    asked = Request(
        verb=RESERVE, name=name, gpus=request, seconds=int(seconds), numbers=numbers, behind=behind_sudo(os.environ)
    )
    return _tell_service(host, asked).numbers


def keep(host: Host, name: str, owner: int | None, seconds: int) -> float:
    """Let a reservation or job last for `seconds` from now; return in how many it ends, 0 where it has no end."""
    try:
        return _tell_service(host, Request(verb=KEEP, name=name, owner=owner, seconds=seconds)).seconds
    except ServiceMissing:
        if os.geteuid():
            raise
    from amd_ctk.job.alone import keep as keep_alone

    return keep_alone(host, name, owner, seconds)


def end(host: Host, name: str, owner: int | None) -> None:
    """End a reservation or a running job, as the end of its time does; NotDone, NotPermitted."""
    _tell_service(host, Request(verb=END, name=name, owner=owner))


def parse_time(text: str) -> int:
    """Return for how many seconds GPUs are to be reserved; WaitRefused."""
    seconds = int(parse_duration(text) or 0)
    if seconds > MOST_SECONDS:
        raise WaitRefused(f"{text} is longer than {MOST_SECONDS // 86400} days", hint="write 30m, 4h or 2d")
    return seconds


def release(host: Host, name: str, owner: int | None) -> None:
    """Give a reservation back; of root's and others', `owner` says whose."""
    _tell_service(host, Request(verb=RELEASE, name=name, owner=owner))


def require_service() -> ServiceMissing:
    """Return the error for what needs the service where it does not run."""
    return ServiceMissing(
        "users cannot reserve GPUs on this host",
        hint="the administrator enables it with 'amd-ctk users allow NAME'",
    )


def _request_for(
    verb: str, host: Host, name: str, request: str, inside: str, *, waits: bool, is_spare: bool
) -> Request:
    return Request(
        verb=verb,
        name=name,
        gpus=request,
        wait=waits,
        reservation=inside,
        numbers=_numbers_of_job(host, request, os.environ),
        behind=behind_sudo(os.environ),
        spare=is_spare or None,
    )


def _tell_service(host: Host, request: Request) -> Answer:
    require_name(request.name)
    path = find_socket(host)
    answer = ask(path, request) if path else None
    if answer is None:
        raise require_service()
    return answer


def _numbers_of_job(host: Host, request: str, environment: Mapping[str, str]) -> tuple[int, ...] | None:
    """Return the GPUs of the batch job in which this process runs, None where it runs in none."""
    if not any(name.startswith(SLURM_PREFIX) for name in environment):
        return None
    from amd_device_spec.slurm.job_gpus import numbers_in_job

    return numbers_in_job(request, host, environment)


def cancel_job(host: Host, name: str, owner: int | None) -> None:
    """Take a job out of the line, that of `owner` where one is named; NotDone, NotPermitted."""
    require_name(name)
    path = find_socket(host)
    try:
        if path and ask(path, Request(verb=CANCEL, name=name, owner=owner)) is not None:
            return
    except Refused as error:
        # It may wait without the service.
        if error.exit_code != NotDone.exit_code or not _drop_ticket(host, name):
            raise
        return
    if not _drop_ticket(host, name):
        raise NotDone(f"no job {name} waits for GPUs", hint="see 'amd-ctk queue list'")


def _drop_ticket(host: Host, name: str) -> bool:
    """Take a job out of the line by its file; False where none waits. NotPermitted for that of another user."""
    try:
        return Tracker(host).cancel(name)
    except NotPermitted:
        raise NotPermitted(
            f"the job {name} is another user's", hint=f"root removes it: 'sudo amd-ctk queue cancel {name} --user=NAME'"
        ) from None
