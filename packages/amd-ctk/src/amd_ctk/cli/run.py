"""amd-ctk run: a command with GPUs that are reserved for it as long as it runs."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from amd_ctk.cli.context import host_of
from amd_ctk.cli.words import takes_next

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
        str | None, typer.Option(metavar="GPUS", help="Which GPUs, as in AMD_VISIBLE_DEVICES. Default: auto:1.")
    ] = None,
    count: Annotated[int | None, typer.Option("--count", metavar="COUNT", min=1, help="How many free GPUs.")] = None,
    wait: Annotated[
        str | None, typer.Option(WAIT, metavar="[=DURATION]", help="Wait in line, at most 30s, 10m or 2h.")
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the job, if not that of its program and a number.")] = "",
    reservation: Annotated[
        str, typer.Option(metavar="NAME", help="Use the GPUs of a reservation, as 'amd-ctk reserve' made it.")
    ] = "",
    each: Annotated[
        str, typer.Option(metavar="FILE", help="Run a job for each line of FILE; - is standard input.")
    ] = "",
    output: Annotated[str, typer.Option(metavar="DIR", help="Where each job's log goes, as LINE.log.")] = "",
    at_once: Annotated[
        int | None, typer.Option("--at-once", metavar="COUNT", min=1, help="How many jobs at once. Default: one a GPU.")
    ] = None,
    from_line: Annotated[
        int | None, typer.Option("--from-line", metavar="LINE", min=1, help="Begin at this line of FILE.")
    ] = None,
    unit: Annotated[
        bool, typer.Option("--unit", help="Let the command open no other GPU: run it in a scope of systemd.")
    ] = False,
) -> None:
    """Run a command with GPUs reserved for it.

    Gives the GPUs back when COMMAND ends. COMMAND sees only these GPUs: AMD_VISIBLE_DEVICES and
    ROCR_VISIBLE_DEVICES are set, and filters of HIP are removed. It may be `docker run` or `podman run`, whose
    container then gets the GPUs. The exit code is that of COMMAND.

    With --each, the command runs once for each line of FILE, which stands for {} in it. The exit code is the number of
    jobs that failed.
    """
    from amd_ctk.job.run import run_job

    host = host_of(context)
    options: dict[str, Any] = {"gpus": gpus, "count": count, "reservation": reservation, "unit": unit}
    if each or output or at_once or from_line:
        from amd_ctk.job.each import parse_each, run_each

        chosen = parse_each(each, output, at_once, from_line)
        run_each(host, chosen, words, name=name, wait=wait or "", **options)
    run_job(host, words, name=name, wait=wait, **options)
