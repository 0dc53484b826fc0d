"""Run a command with GPUs that are reserved for it as long as it runs."""

from __future__ import annotations

import os
import signal
import time

from amd_ctk.job.start import become, end_by, require_command, require_program
from amd_ctk.job.words import SYSTEMD_RUN, default_name, in_unit, not_told, with_token
from amd_ctk.stderr import say
from amd_device_spec.choice_grant import choice_rules
from amd_device_spec.settings import read_settings
from amd_device_spec.slurm.job_gpus import rules_in_job, with_gpus_of_job
from amd_gpu_tracker.errors import NotPermitted
from amd_gpu_tracker.records.lock import CommandLock
from amd_gpu_tracker.tracker import Tracker
from amd_gpu_tracker.waiting.sentences import got, parse_duration
from amd_gpu_tracker.waiting.ticket import require_name
from amdgpu_discovery.errors import RequestError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amd_gpu_tracker.claims.handover import Reservation
    from amdgpu_discovery.host import Host

# What `amd-ctk run` asks for where nothing is said.
ONE_FREE_GPU = "auto:1"


def run_job(
    host: Host,
    words: Sequence[str],
    *,
    gpus: str = ONE_FREE_GPU,
    wait: str | None = None,
    name: str = "",
    unit: bool = False,
) -> None:
    """Reserve GPUs and become the command of these `words`.

    With `wait` stand in line for so long, "" for ever. With `unit` the command can open no other GPU.
    """
    _require_root_for(unit)
    _check_command(words, wait, unit=unit)
    try:
        reservation = _reserve(host, name or default_name(words, os.getpid()), gpus, wait)
    except KeyboardInterrupt:
        end_by(signal.SIGINT)
    command = with_token(words)
    try:
        become(in_unit(command, reservation.gpus) if unit else command, reservation.environment)
    except BaseException:
        reservation.release()
        raise


def _check_command(words: Sequence[str], wait: str | None, *, unit: bool) -> None:
    """Raise CannotRun or WaitRefused before the job waits; say where GPUs are not handed on."""
    require_command(words, wait)
    if unit:
        require_program(SYSTEMD_RUN)
    if warning := not_told(words):
        say(warning)


def _reserve(host: Host, name: str, request: str, wait: str | None) -> Reservation:
    """Reserve as everywhere, in a job of Slurm among the job's GPUs."""
    rules = rules_in_job(choice_rules(read_settings(host)), request, host, os.environ)
    try:
        return _hold(Tracker(host, rules=rules, lock=CommandLock), name, request, wait)
    except RequestError as error:
        if rules.numbers is None:
            raise
        raise with_gpus_of_job(error, rules.numbers) from error


def _hold(tracker: Tracker, name: str, request: str, wait: str | None) -> Reservation:
    require_name(name)
    began = time.monotonic()
    said: list[str] = []

    def tell(sentence: str) -> None:
        said.append(sentence)
        say(sentence)

    if wait is None:
        reservation = tracker.hold(name, request)
    else:
        reservation = tracker.wait(name, request, timeout=parse_duration(wait), tell=tell)
    if reservation.numbers:
        tell(got(reservation.numbers, time.monotonic() - began if said else None))
    return reservation


def _require_root_for(unit: bool) -> None:
    if unit and os.geteuid():
        raise NotPermitted("only root may limit the devices of a unit", hint="run the command with sudo")
