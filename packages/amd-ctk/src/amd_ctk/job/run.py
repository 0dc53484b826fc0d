"""Run a command with GPUs that are reserved for it as long as it runs."""

from __future__ import annotations

import os
import signal
import time

from amd_ctk.job.service import ServiceHold, hold, require_service
from amd_ctk.job.start import become, end_by, require_command, require_program
from amd_ctk.job.words import SYSTEMD_RUN, default_name, find_run, in_unit, not_told, with_token
from amd_ctk.stderr import say
from amd_gpu_tracker import NotPermitted, WaitRefused
from amd_gpu_tracker.errors import OptionsExcluded
from amd_gpu_tracker.node_access.device_filter import read_devices
from amd_gpu_tracker.waiting.sentences import format_seconds, got
from amdgpu_discovery.selection import asks_for_nothing
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amd_ctk.job.engine_options import EngineOptions
    from amd_gpu_tracker import Reservation
    from amdgpu_discovery.host import Host

    Held = Reservation | ServiceHold

# What `amd-ctk run` asks for where nothing is said.
ONE_FREE_GPU = "auto:1"
# Of `--preempt`.
NOW = "now"


class PlannedJob(Value):
    """A command that is to have GPUs, its name and what it asks for; `wait` as in the option, None where it does not.

    With `is_unit` the command can open no other GPU. With `reservation` it has the GPUs of that. What is spare ends as
    soon as somebody waits for its GPUs.
    """

    words: tuple[str, ...]
    name: str
    request: str
    wait: str | None
    reservation: str
    is_spare: bool
    is_unit: bool


def plan_job(
    words: Sequence[str],
    *,
    gpus: str | None = None,
    count: int | None = None,
    wait: str | None = None,
    name: str = "",
    reservation: str = "",
    preempt: str | None = None,
    unit: bool = False,
) -> PlannedJob:
    """Return what the options of a command line say; raise where waiting would be in vain.

    `gpus` names or chooses GPUs, `count` says how many free ones; OptionsExcluded where both are given. With `wait`
    stand in line for so long, "" for ever. `preempt` is "now" for a spare job.
    """
    is_spare = _is_spare(preempt)
    request = _request_of(gpus, count)
    _require_root_for(unit)
    _check_command(words, wait, unit=unit)
    return PlannedJob(
        words=tuple(words),
        name=name or default_name(words, os.environ, os.getpid()),
        request=request,
        wait=wait,
        reservation=reservation,
        is_spare=is_spare,
        is_unit=unit,
    )


def run_job(host: Host, job: PlannedJob) -> None:
    """Reserve the GPUs of a job and become its command."""
    options = _find_options(job.words, host, job.request)
    try:
        held = _reserve(host, job.name, job.request, job.wait, job.reservation, is_spare=job.is_spare)
    except KeyboardInterrupt:
        end_by(signal.SIGINT)
    command = with_token(job.words, options.name(held.numbers) if options else ())
    try:
        become(in_unit(command, held.gpus, read_devices(host)) if job.is_unit else command, held.environment)
    except BaseException:
        held.release()
        raise


def _request_of(gpus: str | None, count: int | None) -> str:
    """Return the request that the options make; say that a number alone is the number of a GPU, unlike in Docker."""
    if gpus is None:
        return ONE_FREE_GPU if count is None else f"auto:{count}"
    if count is not None:
        raise OptionsExcluded("--gpus", "--count")
    if gpus.isdecimal() and int(gpus):
        say(f"--gpus {gpus} is GPU number {gpus}; for {gpus} free GPU{'' if gpus == '1' else 's'} use --count {gpus}")
    return gpus


def _check_command(words: Sequence[str], wait: str | None, *, unit: bool) -> None:
    """Raise CannotRun or WaitRefused before the job waits; say where GPUs are not handed on."""
    require_command(words, wait)
    if unit:
        require_program(SYSTEMD_RUN)
    if warning := not_told(words):
        say(warning)


def _find_options(words: Sequence[str], host: Host, request: str) -> EngineOptions | None:
    """Return what an engine's command needs for its container to have the GPUs, before any is reserved; CannotRun."""
    if find_run(words) is None or asks_for_nothing(request):
        return None
    # What parses the words of engines is a third of the imports of this program.
    from amd_ctk.job.engine_options import find_options

    return find_options(words, host, os.environ)


def _is_spare(preempt: str | None) -> bool:
    """Return whether a job is to end as soon as somebody waits for its GPUs; WaitRefused for another word than now."""
    if preempt not in (None, NOW):
        raise WaitRefused(f"--preempt={preempt} is not known", hint=f"write --preempt={NOW}")
    return preempt is not None


def _reserve(host: Host, name: str, request: str, wait: str | None, inside: str, *, is_spare: bool) -> Held:
    """Reserve through the service that gives GPUs to everybody, where it is there; else as this process may."""
    began, said = time.monotonic(), False

    def tell(sentence: str) -> None:
        nonlocal said
        said = True
        say(sentence)

    held: Held | None = hold(host, name, request, wait, inside, is_spare=is_spare, tell=tell)
    if held is None and (inside or is_spare):
        raise require_service()
    if held is None:
        # Those who wait through the service do without all of this.
        from amd_ctk.job.alone import reserve

        held = reserve(host, name, request, wait, tell=tell)
    if held.numbers:
        seconds = held.seconds if isinstance(held, ServiceHold) else 0
        limit = f" for at most {format_seconds(seconds)}" if seconds else ""
        say(f"{got(held.numbers, time.monotonic() - began if said else None)}{limit}")
    return held


def _require_root_for(unit: bool) -> None:
    if unit and os.geteuid():
        raise NotPermitted("only root may limit the devices of a unit", hint="run the command with sudo")
