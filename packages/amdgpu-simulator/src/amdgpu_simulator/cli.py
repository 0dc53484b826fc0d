"""The commands of amdgpu-simulator, which `amd-ctk simulate` offers too: GPU servers for machines without a GPU."""

from __future__ import annotations

from typing import Annotated

import typer

from amdgpu_discovery.command_line.context import command_group, host_of, whole_number
from amdgpu_discovery.command_line.plain_help import examples

HELP = "Simulated GPU servers"
app = command_group(HELP)


def profiles(incomplete: str) -> list[str]:
    """Complete the name of a profile for a simulated host."""
    from amdgpu_simulator.profile_files import profile_names

    return [name for name in profile_names() if name.startswith(incomplete)]


def faults(incomplete: str) -> list[str]:
    """Complete a fault of a simulated GPU."""
    from amdgpu_simulator.runs.breaking import KINDS

    return [name for name in KINDS if name.startswith(incomplete)]


@app.command("list")
@examples("amd-ctk simulate list")
def list_profiles() -> None:
    """List the servers that can be simulated."""
    from amdgpu_simulator import commands

    print(commands.list_profiles(), end="")


@app.command("build")
@examples("amd-ctk simulate build mi210-4 server")
def build(
    profile: Annotated[
        str, typer.Argument(metavar="PROFILE", autocompletion=profiles, help="Name or file of a profile.")
    ],
    directory: Annotated[str, typer.Argument(metavar="DIR", help="A new directory.")],
) -> None:
    """Build a simulated host in a directory."""
    from amdgpu_simulator import commands

    print(commands.build(profile, directory), end="")


@app.command("record")
@examples("amd-ctk simulate record server.json")
def record(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where to write the profile.")],
    *,
    with_serials: Annotated[bool, typer.Option("--with-serials", help="Keep the real unique ids.")] = False,
) -> None:
    """Write a profile of this machine to a file."""
    from amdgpu_simulator import commands

    print(commands.record(host_of(context), file, with_serials=with_serials), end="")


@app.command("run", context_settings={"allow_interspersed_args": False})
@examples("amd-ctk simulate run mi300x-8 -- rocm-smi", "sudo amd-ctk simulate run mi210-8 -- bash")
def run(
    profile: Annotated[
        str, typer.Argument(metavar="PROFILE", autocompletion=profiles, help="Name or file of a profile.")
    ],
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="The command to run.")],
    *,
    name: Annotated[
        str, typer.Option(metavar="NAME", help="Name for `simulate break --of`. Default: that of the profile.")
    ] = "",
) -> None:
    """Run a command on a simulated host.

    COMMAND and all programs that it starts find the GPUs of the profile in /sys and /dev. Files that the toolkit writes
    in /etc, /run and /var/lib, and the settings of engines, are forgotten when COMMAND ends; everything else belongs to
    this machine. As root, GPUs have device nodes, which fail to open. For other users, and where this machine has a
    device with the same number, they are plain files.
    """
    from amdgpu_simulator.runs.run import run_simulated

    run_simulated(profile, command, name=name)


@app.command("break")
@examples("amd-ctk simulate break 3 lost", "amd-ctk simulate break --of mi300x-8 3 hot")
def break_gpu(
    gpu: Annotated[int, typer.Argument(metavar="GPU", parser=whole_number(0), help="Number of the GPU.")],
    fault: Annotated[
        str,
        typer.Argument(
            metavar="FAULT",
            autocompletion=faults,
            help="lost, hot, ras (a memory error), busy, hang, leaked (memory that no process holds), orphan (a "
            "process that nobody lists) or dirty-mode (another partition mode).",
        ),
    ],
    *,
    of: Annotated[str, typer.Option(metavar="NAME", help="Which simulation, if several are running.")] = "",
) -> None:
    """Break a GPU of a running simulation."""
    from amdgpu_simulator.runs import breaking
    from amdgpu_simulator.runs.running import find_simulation

    name, host = find_simulation(of)
    breaking.break_gpu(host, gpu, fault)
    print(f"GPU {gpu} of {name}: {fault}")


def main() -> None:
    """Run amdgpu-simulator, and end the process."""
    from amdgpu_discovery.command_line.program import run_program

    run_program(make_app)


def make_app() -> typer.Typer:
    """Return the commands of amdgpu-simulator when it runs without amd-ctk."""
    from amdgpu_discovery.command_line.program import add_commands, make_program

    program = make_program("amdgpu-simulator", HELP)
    add_commands(program, app, written="amd-ctk simulate")
    return program
