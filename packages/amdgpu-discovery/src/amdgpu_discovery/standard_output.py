"""Standard output: whether people look at it on a terminal, what it can show, notes beside it, and its end."""

from __future__ import annotations

import io
import os
import sys

from amdgpu_discovery.plain_text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import NoReturn

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
    """Run a command line, and end the process with the exit code of its SystemExit, 1 if its output cannot be written.

    At its end Python goes through all modules and looks for garbage among all objects, although the kernel takes the
    memory back anyway. That is a fifth of the time of a `gpu list`, and nothing here waits for it: files and locks are
    closed by those who opened them.
    """
    try:
        try:
            run()
        except SystemExit as ended:
            # A code that is no number is a sentence, which Python prints.
            if not isinstance(ended.code, int):
                raise
            _leave(ended.code)
    except OSError as error:
        # Errors of named files are ToolkitErrors; what is left is standard output, and os.getcwd().
        if error.filename is not None:
            raise
        _give_up(error)


def print_error(sentence: str) -> None:
    """Print a sentence on standard error, which decides nothing: it may be closed, full, or without a reader."""
    try:
        if sys.stderr is not None:
            print(sentence, file=sys.stderr, flush=True)
    except OSError:
        # Or the interpreter would try again on its way out, and end with 120.
        sys.stderr = None


def _leave(code: int) -> None:
    """Write what was printed, and end the process."""
    # Python has none where the descriptor is closed.
    if sys.stdout is not None:
        sys.stdout.flush()
    os._exit(code)


def _give_up(error: OSError) -> NoReturn:
    """Say why the answer cannot be written, and end the process."""
    from amdgpu_discovery.errors import reason

    if isinstance(error, FileNotFoundError):
        print_error("the current directory does not exist (change to another one)")
    elif not isinstance(error, BrokenPipeError):
        print_error(f"the output cannot be written: {reason(error)}")
    os._exit(1)
