"""How a command ends: what it printed is written, and nothing else is put away."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable


def run_and_leave(run: Callable[[], object]) -> None:
    """Run a command line, and end the process with the exit code of its SystemExit.

    At its end Python goes through all modules and looks for garbage among all objects, although the kernel takes the
    memory back anyway. That is a fifth of the time of a `gpu list`, and nothing here waits for it: files and locks are
    closed by those who opened them.
    """
    try:
        run()
    except SystemExit as ended:
        # A code that is no number is a sentence, which Python prints.
        if isinstance(ended.code, int) and _write_all():
            os._exit(ended.code)
        raise


def _write_all() -> bool:
    """Write what was printed; where that fails Python tries again at its end, says so and ends with 120."""
    try:
        for stream in (sys.stdout, sys.stderr):
            # Python has none where the descriptor is closed.
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        return False
    return True
