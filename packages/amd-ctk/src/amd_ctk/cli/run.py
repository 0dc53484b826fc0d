"""amd-ctk run: a command with GPUs that are reserved for it as long as it runs."""

from __future__ import annotations

import os
import signal
import time
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from amd_ctk.cli.context import host_of
from amd_ctk.cli.stderr import say
from amd_ctk.cli.words import takes_next
from amdgpu_discovery.errors import RequestError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amd_gpu_tracker import Reservation, Tracker
    from amdgpu_discovery.host import Host

# Words of COMMAND look like options of amd-ctk.
SETTINGS = {"allow_interspersed_args": False}
WAIT = "--wait"


class RunCommand(TyperCommand):
    """A command with an option whose value may be left out."""

    # What takes a value only behind an equals sign.
    optional_values = (WAIT,)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line; `--wait` alone is `--wait=`, and what follows it is not its value."""
        own = 0
        while own < len(args) and args[own].startswith("-") and args[own] != "--":
            own += 2 if takes_next(self, args[own]) else 1
        spelt = [f"{word}=" if word == WAIT else word for word in args[:own]]
        return super().parse_args(ctx, [*spelt, *args[own:]])


COMMAND = RunCommand


def run(
    context: typer.Context,
    words: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="What is run, with its arguments.")],
    *,
    gpus: Annotated[
        str, typer.Option(metavar="REQUEST", help="Which GPUs, or how many, as in AMD_VISIBLE_DEVICES.")
    ] = "auto:1",
    wait: Annotated[
        str | None, typer.Option(WAIT, metavar="[=DURATION]", help="Wait in line, at most 30s, 10m or 2h.")
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the job, if not that of its program and a number.")] = "",
    unit: Annotated[
        bool, typer.Option("--unit", help="Let the command open no other GPU: run it in a scope of systemd.")
    ] = False,
) -> None:
    """Reserve GPUs, run COMMAND with them, and give them back when it ends.

    COMMAND sees these GPUs only: AMD_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES are set, and filters of HIP are removed.
    It may be `docker run` or `podman run`, whose container is given the GPUs. Its exit code is that of this command.
    """
    from amd_ctk.job.start import become, end_by
    from amd_ctk.job.words import default_name, in_unit, with_token

    _require_root_for(unit)
    _check_command(words, wait, unit=unit)
    try:
        reservation = _reserve(host_of(context), name or default_name(words, os.getpid()), gpus, wait)
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
    from amd_ctk.job.start import require_command, require_program
    from amd_ctk.job.words import SYSTEMD_RUN, not_told

    require_command(words, wait)
    if unit:
        require_program(SYSTEMD_RUN)
    if warning := not_told(words):
        say(warning)


def _reserve(host: Host, name: str, request: str, wait: str | None) -> Reservation:
    """Reserve as everywhere, in a job of Slurm among the job's GPUs."""
    from amd_device_spec.choice_grant import choice_rules
    from amd_device_spec.settings import read_settings
    from amd_device_spec.slurm.job_gpus import rules_in_job, with_gpus_of_job
    from amd_gpu_tracker import Tracker
    from amd_gpu_tracker.records.lock import CommandLock

    rules = rules_in_job(choice_rules(read_settings(host)), request, host, os.environ)
    try:
        return _hold(Tracker(host, rules=rules, lock=CommandLock), name, request, wait)
    except RequestError as error:
        if rules.numbers is None:
            raise
        raise with_gpus_of_job(error, rules.numbers) from error


def _hold(tracker: Tracker, name: str, request: str, wait: str | None) -> Reservation:
    from amd_gpu_tracker.waiting.sentences import got, parse_duration
    from amd_gpu_tracker.waiting.ticket import require_name

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
        from amd_gpu_tracker import NotPermitted

        raise NotPermitted("only root may limit the devices of a unit", hint="run the command with sudo")
