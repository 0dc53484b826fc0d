"""The command line: the root of the tree of commands, and one module a command or group of them."""

from __future__ import annotations

import gc
import sys

# Python looks for garbage after some hundred new objects. Importing Typer makes many thousands that all stay, and
# checking them again and again takes half as long as starting Python.
GC_THRESHOLD = 100_000


def main() -> None:
    """Run amd-ctk as a process of its own, which ends with it."""
    gc.set_threshold(GC_THRESHOLD)
    from amdgpu_discovery.command_line.standard_output import run_and_leave

    run_and_leave(run_command_line)


def run_command_line() -> None:
    """Run the command of `sys.argv`; it ends with SystemExit."""
    from amd_ctk.cli.front import find_answer
    from amdgpu_discovery.command_line.standard_output import prepare_streams

    prepare_streams()
    if answer := find_answer(sys.argv[1:]):
        answer()
        sys.exit(0)
    from amd_ctk.cli.root import app

    app()
