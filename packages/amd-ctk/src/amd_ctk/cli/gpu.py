"""amd-ctk gpu: list GPUs, for people, programs and browsers."""

from __future__ import annotations

from typing import Annotated

import typer

from amdgpu_discovery.command_line.context import PrintJson, command_group, host_of
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
    from amd_gpu_tracker.cli import show_usage

    reader = Tracker(host_of(context), lock=CommandLock).usage_looks()
    show_usage(reader, as_json=False, watch=False, peaks=False, prometheus=True, no_trunc=False)
