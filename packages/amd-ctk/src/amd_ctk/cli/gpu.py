"""amd-ctk gpu: list GPUs, for people, programs and browsers, and clean them between two jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from amdgpu_discovery.command_line.context import PrintJson, command_group, host_of, seconds
from amdgpu_discovery.command_line.plain_help import examples

app = command_group("GPU related commands")


@app.command("list")
@examples("amd-ctk gpu list", "amd-ctk gpu list --wide", "amd-ctk gpu list --json")
def list_gpus(
    context: typer.Context,
    *,
    wide: Annotated[
        bool, typer.Option("--wide", "-w", help="Also show model, memory, address, partition and users of each GPU.")
    ] = False,
    no_trunc: Annotated[bool, typer.Option("--no-trunc", help="Do not shorten columns to fit the terminal.")] = False,
    as_json: PrintJson = False,
) -> None:
    """List AMD GPUs with their UUIDs."""
    from amd_ctk.gpus.gpu_list import print_gpu_list

    print_gpu_list(host_of(context), wide=wide, no_trunc=no_trunc, as_json=as_json)


@app.command("query")
@examples("amd-ctk gpu query --format='{gfx}'", "amd-ctk gpu query --format=labels --gpus=0-1")
def query(
    context: typer.Context,
    *,
    text: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="Text with fields, such as {gfx}; or labels, or nfd.")
    ],
    gpus: Annotated[str, typer.Option(metavar="GPUS", help="Which GPUs, as in AMD_VISIBLE_DEVICES.")] = "all",
) -> None:
    """Print facts about GPUs for scripts.

    Prints a line for each GPU, and equal lines once. The fields are number, gfx, family, model, vram (MiB),
    partition, pci, driver, rocm, kernel and cpu.
    """
    from amd_ctk.gpus.listing import find_listed_gpus
    from amd_ctk.gpus.query import format_features, format_gpus, format_labels
    from amd_device_spec.requested import select_requested
    from amdgpu_discovery.requirements.facts import read_facts

    host = host_of(context)
    found = find_listed_gpus(host)
    chosen = select_requested(host, found, gpus)
    facts = read_facts(host, {gpu.number for gpu in chosen}, {})
    if text == "labels":
        lines = format_labels(chosen, facts)
    else:
        lines = format_features(chosen, facts) if text == "nfd" else format_gpus(text, chosen, facts)
    print("\n".join(lines))


@app.command("page")
@examples("amd-ctk gpu page -o gpus.html")
def page(
    context: typer.Context,
    *,
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="Write the page to this file.")] = "",
) -> None:
    """Print a page for browsers: all GPUs and the queue."""
    from amd_ctk.gpus.status_page import print_page

    print_page(host_of(context), output)


@app.command("metrics")
@examples("amd-ctk gpu metrics")
def metrics(context: typer.Context) -> None:
    """Print usage for Prometheus's textfile collector."""
    from amd_gpu_tracker import CommandLock, Tracker
    from amd_gpu_tracker.cli import show_metrics

    show_metrics(Tracker(host_of(context), lock=CommandLock).usage_looks())


@app.command("check")
@examples("amd-ctk gpu check 0-3", "amd-ctk gpu check $SLURM_JOB_GPUS --for 30")
def check(
    context: typer.Context,
    gpus: Annotated[str, typer.Argument(metavar="GPUS", help="Which GPUs, as in AMD_VISIBLE_DEVICES.")] = "all",
    *,
    duration: Annotated[
        float | None,
        typer.Option("--for", metavar="SECONDS", parser=seconds, help="Look for this long until they are clean."),
    ] = None,
    as_json: PrintJson = False,
) -> None:
    """Check that the last job left nothing on GPUs.

    The exit code is 0 if they are clean, else 1: a process or memory is left, the partition mode is another, or the
    driver does not answer. A GPU that is reserved counts as clean.
    """
    from amd_ctk.gpus.clean import check_gpus

    if not check_gpus(host_of(context), gpus, seconds=duration or 0.0, as_json=as_json):
        raise typer.Exit(1)


@app.command("clean")
@examples("sudo amd-ctk gpu clean 3", "sudo amd-ctk gpu clean 3 --reset")
def clean(
    context: typer.Context,
    gpus: Annotated[str, typer.Argument(metavar="GPUS", help="Which GPUs, as in AMD_VISIBLE_DEVICES.")],
    *,
    reset: Annotated[
        bool, typer.Option("--reset", help="Only print the command that resets them, if that takes no GPU from others.")
    ] = False,
) -> None:
    """End what ended jobs have left on these GPUs.

    Only processes that were seen in the ended job, and that run as its owner. The exit code is that of `gpu check`.
    """
    from amd_ctk.gpus.clean import clean_gpus, print_reset

    host = host_of(context)
    if reset:
        print_reset(host, gpus)
    elif not clean_gpus(host, gpus):
        raise typer.Exit(1)
