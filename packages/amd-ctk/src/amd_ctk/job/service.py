"""Ask the service that gives out GPUs: for a job, for a reservation, to give back and to cancel."""

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
from amd_gpu_tracker.waiting.sentences import parse_duration
from amd_gpu_tracker.waiting.ticket import require_name
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.people import behind_sudo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from amd_ctk.job.words import PlannedJob
    from amdgpu_discovery.host import Host

SLURM_PREFIX = "SLURM_"


class ServiceMissing(ToolkitError):
    """What only the service can do, on a host where it does not run."""

    exit_code = 3


class NoSuchUser(ToolkitError):
    """A user whom the system does not know."""

    exit_code = 2


def hold(host: Host, job: PlannedJob, *, tell: Callable[[str], None]) -> Answer | None:
    """Return which GPUs this process was given until it ends; None where there is no service, and none is needed.

    `tell` is called with what is waited for.
    """
    path, answer = find_socket(host), None
    if path:
        require_name(job.name)
        try:
            answer = ask(path, _request_for(RUN, host, job), timeout=parse_duration(job.wait or ""), tell=tell)
        except ServiceGone:
            if os.geteuid():
                raise
            # It was disabled; root needs none.
    return _required(answer, job)


def preview(host: Host, job: PlannedJob) -> Answer | None:
    """Return what `hold` would be answered now; Refused."""
    path = find_socket(host)
    return _required(ask(path, _request_for(PREVIEW, host, job)) if path else None, job)


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


def find_owner(user: str) -> int | None:
    """Return the number of a user by name or number, None for ""; NoSuchUser."""
    if not user:
        return None
    if user.isascii() and user.isdecimal() and len(user) <= 10:
        return int(user)
    # What gives out GPUs knows numbers only.
    import pwd

    try:
        return pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):
        raise NoSuchUser(f"there is no user {user[:64]!r}", hint="name a user, or write the number") from None


def _required(answer: Answer | None, job: PlannedJob) -> Answer | None:
    """Return the answer of the service; ServiceMissing where there is none, and a job can do with no other's."""
    if answer is None and (job.reservation or job.is_spare):
        raise require_service()
    return answer


def _request_for(verb: str, host: Host, job: PlannedJob) -> Request:
    return Request(
        verb=verb,
        name=job.name,
        gpus=job.request,
        wait=job.wait is not None,
        reservation=job.reservation,
        numbers=_numbers_of_job(host, job.request, os.environ),
        behind=behind_sudo(os.environ),
        spare=job.is_spare or None,
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
