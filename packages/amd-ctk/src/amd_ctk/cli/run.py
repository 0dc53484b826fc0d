"""amd-ctk run: a command with GPUs that are reserved for it as long as it runs."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from amd_ctk.cli.words import takes_value
from amdgpu_discovery.command_line.context import host_of, whole_number
from amdgpu_discovery.command_line.plain_help import PlainCommand, examples
from amdgpu_discovery.errors import ToolkitError

# Words of COMMAND look like options of amd-ctk.
SETTINGS = {"allow_interspersed_args": False}
WAIT = "--wait"


class EachRefused(ToolkitError):
    """Options of `run` that only go together."""

    exit_code = 2


class RunCommand(PlainCommand):
    """A command with an option whose value may be left out."""

    # Options that take a value only after an equals sign.
    optional_values = (WAIT,)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line; `--wait` alone is `--wait=`, and what follows it is not its value."""
        own = 0
        while own < len(args) and args[own].startswith("-") and args[own] != "--":
            own += 2 if takes_value(self, args[own]) else 1
        spelt = [f"{word}=" if word == WAIT else word for word in args[:own]]
        return super().parse_args(ctx, [*spelt, *args[own:]])


COMMAND = RunCommand


@examples(
    "sudo amd-ctk run --gpus=auto:1 -- python3 train.py",
    "sudo amd-ctk run --gpus=auto:2 --wait -- docker run --rm rocm/pytorch rocm-smi",
    "sudo amd-ctk run --vram=8GiB -- docker run --rm rocm/pytorch rocm-smi",
    "sudo amd-ctk run --gpus=free:1 --wait=2h --name=nightly --unit -- ./nightly.sh",
    "amd-ctk run --preempt=now --wait -- ./worker.sh",
    "amd-ctk run --count=1 --wait --detach --name=night -- python3 train.py",
    "amd-ctk run --each=seeds.txt --output=logs -- python3 train.py --seed={}",
)
def run(
    context: typer.Context,
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND...", help="The command to run, with its arguments.")
    ],
    *,
    gpus: Annotated[
        str | None, typer.Option(metavar="GPUS", help="Which GPUs, as in AMD_VISIBLE_DEVICES. Default: auto:1.")
    ] = None,
    count: Annotated[
        int | None, typer.Option(metavar="COUNT", parser=whole_number(1), help="How many free GPUs to reserve.")
    ] = None,
    wait: Annotated[
        str | None, typer.Option(WAIT, metavar="[=DURATION]", help="Wait in line; =30s, =10m or =2h limits the wait.")
    ] = None,
    vram: Annotated[
        str,
        typer.Option(
            metavar="AMOUNT", help="Take a part of the memory of each GPU, as in 8GiB; a container cannot exceed it."
        ),
    ] = "",
    name: Annotated[
        str,
        typer.Option(metavar="NAME", help="Name of the job. Default: $AMD_CTK_JOB_NAME or the program, and a number."),
    ] = "",
    reservation: Annotated[
        str, typer.Option(metavar="NAME", help="Use the GPUs of this reservation of 'amd-ctk reserve'.")
    ] = "",
    preempt: Annotated[
        str | None, typer.Option(metavar="now", help="Take GPUs that are left over; end when someone waits for them.")
    ] = None,
    each: Annotated[
        str, typer.Option(metavar="FILE", help="Run a job for each line of FILE; - is standard input.")
    ] = "",
    output: Annotated[str, typer.Option(metavar="DIR", help="Write the log of each job to DIR/LINE.log.")] = "",
    at_once: Annotated[
        int | None,
        typer.Option(metavar="COUNT", parser=whole_number(1), help="How many jobs at once. Default: one for each GPU."),
    ] = None,
    from_line: Annotated[
        int | None, typer.Option(metavar="LINE", parser=whole_number(1), help="Start at this line of FILE.")
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Run it in the background, as a unit of your systemd; see NAME.log.")
    ] = False,
    unit: Annotated[
        bool, typer.Option("--unit", help="Close all other GPUs to the command: run it in a systemd scope.")
    ] = False,
) -> None:
    """Run a command with GPUs reserved for it.

    COMMAND sees only these GPUs, and gives them back when it ends. This sets AMD_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES
    and HIP_VISIBLE_DEVICES for it, and removes other filters. If COMMAND is `docker run` or `podman run`, its container
    gets the GPUs. The exit code is that of COMMAND.

    With --detach, COMMAND goes on when the terminal is closed, and its output is in NAME.log, here or in --output=DIR.

    With --each, COMMAND runs once for each line of FILE, with the line in place of {}. The exit code is the number of
    jobs that failed.
    """
    from amd_ctk.job.run import plan_job, run_job

    host = host_of(context)
    options: dict[str, Any] = {"gpus": gpus, "count": count, "reservation": reservation}
    options |= {"preempt": preempt, "unit": unit, "vram": vram}
    if vram and (detach or each):
        from amd_ctk.job.memory import require_amount

        require_amount(host, vram)
    if detach:
        from amd_ctk.job.detached import run_detached
        from amd_gpu_tracker.errors import OptionsExcluded

        if at_once or from_line:
            raise OptionsExcluded("--detach", "--at-once" if at_once else "--from-line")
        run_detached(host, command, name=name, output=output, each=each, wait=wait, **options)
        return
    if each or output or at_once or from_line:
        _require_each(each, output)
        from amd_ctk.job.each import run_each
        from amd_ctk.job.start import default_name

        options |= {"name": name or default_name(command, os.environ, os.getpid()), "wait": wait or ""}
        run_each(host, command, file=each, output=output, at_once=at_once, first=from_line or 1, **options)
    run_job(host, plan_job(command, name=name, wait=wait, **options))


def _require_each(file: str, output: str) -> None:
    """Raise EachRefused if an option lacks the one that it requires."""
    if not file:
        raise EachRefused("--output, --at-once and --from-line are for jobs of --each", hint="add --each=FILE")
    if not output:
        raise EachRefused("--each needs a directory for the logs", hint="add --output=DIR")
