"""The program amd-gpu-sharing: the commands that amd-ctk offers too, and the service."""

from __future__ import annotations

import typer

from amdgpu_discovery.command_line.program import add_command, add_group, make_program, run_program

HELP = "Reserve GPUs without root, or wait for them in line"


def main() -> None:
    """Run amd-gpu-sharing, and end the process."""
    run_program(make_app)


def make_app() -> typer.Typer:
    """Return the commands of amd-gpu-sharing when it runs without amd-ctk."""
    from amd_gpu_sharing.cli import queue, report, reserve, usage, users

    program = make_program("amd-gpu-sharing", HELP)
    for function in (reserve.reserve, reserve.keep, reserve.end, reserve.release):
        add_command(program, function, written="amd-ctk", cls=reserve.COMMAND)
    for name, module in (("users", users), ("queue", queue), ("report", report), ("usage", usage)):
        add_group(program, name, module.app, written="amd-ctk", hidden=module is usage)
    return program
