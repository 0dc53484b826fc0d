"""Standard output: whether it is a terminal, what it can show, notes beside it, and its end."""

from __future__ import annotations

import io
import os
import sys

from amdgpu_discovery.untrusted.plain_text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import NoReturn

# TERM of editors and build logs, on which nothing can be drawn: terminfo(5) has them without cursor movement.
WITHOUT_CURSOR = ("dumb", "unknown")


def is_terminal() -> bool:
    """Return whether standard output is a terminal on which lists can be drawn; others get what files get."""
    # Python has no stdout if the descriptor is closed.
    return sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM", "").lower() not in WITHOUT_CURSOR


def prepare_streams() -> None:
    """Escape characters that the locale lacks, and print no messages if standard error is closed.

    Names of containers and processes have any characters. Without standard error, Python prints on standard output.
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
    """Print notes about a list on stderr; ids of containers in them may hold anything."""
    for note in notes:
        print(printable(note), file=sys.stderr, flush=True)


def run_and_leave(run: Callable[[], object]) -> None:
    """Run a command line, and end the process with the code of its SystemExit, 1 if its output cannot be written.

    When it ends, Python goes through all modules and collects garbage, although the kernel takes the memory back
    anyway. That is a fifth of the time of a `gpu list`, and nothing here needs it: functions close the files and locks
    that they opened.
    """
    try:
        try:
            run()
        except SystemExit as ended:
            # A code that is not a number is a sentence, which Python prints.
            if not isinstance(ended.code, int):
                raise
            _exit(ended.code)
    except OSError as error:
        # Errors of named files are ToolkitErrors; standard output and os.getcwd() remain.
        if error.filename is not None:
            raise
        _fail(error)


def print_error(sentence: str) -> None:
    """Print a sentence on standard error, and ignore failures: it may be closed, full, or without a reader."""
    try:
        if sys.stderr is not None:
            print(sentence, file=sys.stderr, flush=True)
    except OSError:
        # Otherwise the interpreter would try again at its end, and end with 120.
        sys.stderr = None


def _exit(code: int) -> None:
    """Flush the output, and end the process."""
    # Python has no stdout if the descriptor is closed.
    if sys.stdout is not None:
        sys.stdout.flush()
    os._exit(code)


def _fail(error: OSError) -> NoReturn:
    """Print why the output cannot be written, and end the process."""
    from amdgpu_discovery.errors import reason

    if isinstance(error, FileNotFoundError):
        print_error("the current directory does not exist (change to another one)")
    elif not isinstance(error, BrokenPipeError):
        print_error(f"the output cannot be written: {reason(error)}")
    os._exit(1)
