"""What a job would be given if it asked now: the service's answer, or the tracker's where there is no service."""

from __future__ import annotations

from amd_ctk.job.service import preview, require_service
from amd_gpu_tracker.errors import GpusRefused
from amd_gpu_tracker.waiting.sentences import parse_duration
from amd_gpu_tracker.waiting.ticket import require_name
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amdgpu_discovery.host import Host


class Foreseen(Value):
    """The GPUs and variables that a job would get, for at most some seconds (0 for no limit), or what it waits for."""

    numbers: tuple[int, ...] = ()
    environment: dict[str, str] = {}  # noqa: RUF012 - values are immutable, and nobody changes it
    seconds: int = 0
    waits_for: str = ""


def foresee(host: Host, name: str, request: str, wait: str | None, inside: str, *, is_spare: bool) -> Foreseen:
    """Return what becomes of a job; errors as `job.service.hold` and `job.alone.reserve`. Nothing is reserved."""
    require_name(name)
    if wait is not None:
        parse_duration(wait)
    answer = preview(host, name, request, inside, waits=wait is not None, is_spare=is_spare)
    if answer is not None:
        return Foreseen(
            numbers=answer.numbers,
            environment=dict(answer.environment),
            seconds=answer.seconds,
            waits_for=answer.message,
        )
    if inside or is_spare:
        raise require_service()
    return _foresee_alone(host, name, request, waits=wait is not None)


def _foresee_alone(host: Host, name: str, request: str, *, waits: bool) -> Foreseen:
    from amd_ctk.job import alone

    found = alone.preview(host, name, request, waits=waits)
    if isinstance(found, GpusRefused):
        return Foreseen(waits_for=found.message)
    gpus, environment = found
    return Foreseen(numbers=tuple(gpu.number for gpu in gpus), environment=environment)
