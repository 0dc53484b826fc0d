"""amd-ctk slurm: the GPUs of a node in a cluster of Slurm."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from amdgpu_discovery.command_line.context import PrintJson, command_group, host_of
from amdgpu_discovery.command_line.plain_help import examples
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.gpu import Gpu
from amdgpu_discovery.host import Host

app = command_group("Write and check the GPUs that Slurm knows")

Node = Annotated[
    str, typer.Option("--node", metavar="NAME", help="Name of this node in Slurm. Default: its host name.")
]


class NoGpu(ToolkitError):
    """There is nothing to say of GPUs to Slurm."""


class WrongWord(ToolkitError):
    """A name that Slurm's configuration cannot hold."""


@app.command("gres")
@examples("amd-ctk slurm gres", "amd-ctk slurm gres --type=mi300x --node=node7")
def gres(
    context: typer.Context,
    *,
    model: Annotated[str, typer.Option("--type", metavar="NAME", help="Type of the GPUs. Default: their model.")] = "",
    node: Node = "",
) -> None:
    """Print gres.conf for the GPUs of this node."""
    from amd_ctk.slurm.gres import build_gres, format_gres_conf
    from amdgpu_discovery.numbering import require_all_gpus

    host = host_of(context)
    for word in (model, node):
        # Other characters would start another line or key of the file.
        if not all(character.isalnum() or character in "-_." for character in word):
            raise WrongWord(f"Slurm does not accept the name {word!r}", hint="write letters, digits, '-', '_' and '.'")
    gpus = _find_gpus(host)
    # All jobs of the node use this file.
    require_all_gpus(gpus)
    print(format_gres_conf(build_gres(host, gpus, model), node or _node_name()))


@app.command("status")
@examples("amd-ctk slurm status", "amd-ctk slurm status --json")
def status(context: typer.Context, *, as_json: PrintJson = False, node: Node = "") -> None:
    """Show the GPUs as Slurm's configuration has them."""
    from amd_ctk.slurm.status import format_json, format_status, read_status

    host = host_of(context)
    found = read_status(host, _find_gpus(host), node or _node_name())
    print(format_json(found) if as_json else format_status(found), flush=True)
    for problem in () if as_json else found.problems:
        print(problem, file=sys.stderr)


def _find_gpus(host: Host) -> list[Gpu]:
    from amdgpu_discovery.discover import find_gpus

    gpus = find_gpus(host)
    if not gpus:
        raise NoGpu("this host has no AMD GPU that can compute, so Slurm has no GPU to give out")
    return gpus


def _node_name() -> str:
    """Return the name that slurmd uses for this node."""
    return os.uname().nodename.partition(".")[0]
