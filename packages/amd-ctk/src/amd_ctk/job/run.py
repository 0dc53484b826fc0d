"""Run a command with GPUs that are reserved for it as long as it runs."""

from __future__ import annotations

import os
import signal
import time
from contextlib import nullcontext

from amd_ctk.companions import SHARING, require
from amd_ctk.engines.engine_words import find_run
from amd_ctk.job.service import hold
from amd_ctk.job.start import (
    SYSTEMD_RUN,
    GivenGpus,
    PlannedJob,
    become,
    default_name,
    find_gpu_warning,
    in_unit,
    require_command,
    through_sudo,
    with_token,
)
from amd_gpu_tracker import GpusRefused, NotPermitted, Reservation, WaitRefused
from amd_gpu_tracker.errors import OptionsExcluded
from amd_gpu_tracker.times import format_seconds
from amd_gpu_tracker.watch.show.jobs import describe_grant
from amdgpu_discovery.choices.selection import asks_for_nothing, may_be_choice
from amdgpu_discovery.command_line.process import end_by, require_program
from amdgpu_discovery.command_line.stderr import print_note
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.numbering import locate_gpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from amd_ctk.job.engine_options import EngineOptions
    from amd_ctk.job.memory import JobLimit
    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.host import Host

# The default request of `amd-ctk run`.
ONE_FREE_GPU = "auto:1"
# The value of `--preempt`.
NOW = "now"


def plan_job(
    argv: Sequence[str],
    *,
    gpus: str | None = None,
    count: int | None = None,
    wait: str | None = None,
    name: str = "",
    reservation: str = "",
    preempt: str | None = None,
    unit: bool = False,
    vram: str = "",
) -> PlannedJob:
    """Return the job that options describe; raise if waiting is in vain, and print a warning if no GPU is passed on.

    `gpus` names or chooses GPUs, `count` is a number of free ones; OptionsExcluded if both are given. `wait` is the
    longest time in the queue, "" for no limit. `preempt` is "now" for a spare job, `vram` an amount of memory.
    """
    if preempt not in (None, NOW):
        raise WaitRefused(f"--preempt={preempt} is not known", hint=f"write --preempt={NOW}")
    request = _request_of(gpus, count)
    if unit and os.geteuid():
        raise NotPermitted("only root may limit the devices of a unit", hint="run the command with sudo")
    require_command(argv, wait)
    if unit:
        require(SHARING)
        require_program(SYSTEMD_RUN)
    argv = through_sudo(argv)
    if warning := find_gpu_warning(argv):
        print_note(warning)
    return PlannedJob(
        argv=tuple(argv),
        name=name or default_name(argv, os.environ, os.getpid()),
        request=request,
        wait=wait,
        reservation=reservation,
        is_spare=preempt is not None,
        is_unit=unit,
        vram=vram,
    )


def run_job(host: Host, job: PlannedJob) -> None:
    """Reserve the GPUs of a job and become its command."""
    options = find_engine_options(job, host, os.environ)
    limit = find_limit(job, host, options)
    job = job.replace(part_mib=limit.part_mib if limit else 0)
    try:
        held = _reserve(host, job)
    except KeyboardInterrupt:
        end_by(signal.SIGINT)
    # When this process ends, the service takes its GPUs back.
    with held if isinstance(held, Reservation) else nullcontext():
        words = options.for_gpus(held.numbers) if options else ()
        variables = dict(held.environment)
        if limit:
            words = (*limit.words, *words)
            variables |= limit.variables_for(host, held.numbers)
        command = with_token(job.argv, words)
        if job.is_unit:
            gpus = [gpu for gpu in locate_gpus(host) if gpu.number in held.numbers]
            command = in_unit(command, _unit_properties(host, gpus))
        become(command, variables)


def _unit_properties(host: Host, gpus: Sequence[GpuLocation]) -> list[str]:
    from amd_gpu_sharing import ReservedNodes

    return ReservedNodes(host).unit_properties(gpus)


def find_engine_options(job: PlannedJob, host: Host, environment: Mapping[str, str]) -> EngineOptions | None:
    """Return the options that an engine's command lacks to get the GPUs; call this before reserving. NoGpusByEngine."""
    if find_run(job.argv) is None or asks_for_nothing(job.request):
        return None
    # The parser of engines' words is a third of the imports of this program.
    from amd_ctk.job.engine_options import find_options

    return find_options(job.argv, host, environment)


def find_limit(job: PlannedJob, host: Host, options: EngineOptions | None) -> JobLimit | None:
    """Return the limit on the memory of a job's GPUs, None if it asks for none; call this before reserving."""
    if not job.vram:
        return None
    # Few jobs have a limit.
    from amd_ctk.job.memory import find_job_limit

    return find_job_limit(job, host, options)


def _request_of(gpus: str | None, count: int | None) -> str:
    """Return the request of the options; warn that a lone number is the number of a GPU, unlike in Docker."""
    if gpus is None:
        return ONE_FREE_GPU if count is None else f"auto:{count}"
    if count is not None:
        raise OptionsExcluded("--gpus", "--count")
    if gpus.isdecimal() and int(gpus):
        print_note(
            f"--gpus {gpus} is GPU number {gpus}; for {gpus} free GPU{'' if gpus == '1' else 's'} use --count {gpus}"
        )
    return gpus


def _reserve(host: Host, job: PlannedJob) -> GivenGpus | Reservation:
    """Reserve the GPUs of a job, and print what it waits for and what it got."""
    began = time.monotonic()
    was_notified = False

    def notify(sentence: str) -> None:
        nonlocal was_notified
        was_notified = True
        print_note(sentence)

    try:
        held = hold(host, job, notify=notify)
    except ToolkitError as error:
        # The guide's words about named GPUs in use have no next step, because containers cannot wait.
        if error.exit_code == GpusRefused.exit_code and job.wait is None and not may_be_choice(job.request):
            error.hint = error.hint or "--wait waits for them"
        raise
    if held.numbers:
        seconds = held.seconds if isinstance(held, GivenGpus) else 0
        limit = f" for at most {format_seconds(seconds)}" if seconds else ""
        print_note(f"{describe_grant(held.numbers, time.monotonic() - began if was_notified else None)}{limit}")
    return held
