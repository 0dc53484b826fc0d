"""The command line: the root of the tree of commands, and one module a command or group of them."""

from __future__ import annotations

import gc

# Python looks for garbage after some hundred new objects. Importing Typer makes many thousands that all stay, and to
# look at them again and again takes half as long as to start Python.
OBJECTS_BEFORE_GARBAGE_IS_LOOKED_FOR = 100_000


def main() -> None:
    """Run amd-ctk."""
    gc.set_threshold(OBJECTS_BEFORE_GARBAGE_IS_LOOKED_FOR)
    from amd_ctk.cli.root import app
    from amd_gpu_tracker.show.standard_output import escape_unknown_characters

    escape_unknown_characters()
    app()
