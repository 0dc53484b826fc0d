"""Standard output: whether people look at it on a terminal, what it can show, notes beside it, and its end."""

from __future__ import annotations

import io
import os
import sys

from amdgpu_discovery.plain_text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# What editors and build logs call themselves, where nothing can be drawn: terminfo(5) has them without cursor movement.
WITHOUT_CURSOR = ("dumb", "unknown")


def is_terminal() -> bool:
    """Return whether it is a terminal on which lists can be drawn; others get what files get."""
    # Python has none where the descriptor is closed.
    return sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM", "").lower() not in WITHOUT_CURSOR


def prepare_streams() -> None:
    """Print what the locale has no character for as its number, and nothing where standard error is closed.

    Names of containers and processes have any characters. Without standard error Python prints on standard output.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - it lasts as long as the program
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def print_utf8(text: str) -> None:
    """Print text for a program that reads UTF-8, whatever the locale."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    print(text)


def print_notes(notes: Iterable[str]) -> None:
    """Print on stderr what there is to say about a list; ids of containers may hold anything."""
    for note in notes:
        print(printable(note), file=sys.stderr, flush=True)


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
