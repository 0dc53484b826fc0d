"""Become another program: find it, replace this process by it, or end by a signal as it did."""

from __future__ import annotations

import errno
import os
import signal
import stat
import sys
from contextlib import suppress

from amdgpu_discovery.errors import ToolkitError, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

# Errors for a directory of PATH that does not contain the program.
MISSING_ERRORS = (FileNotFoundError, NotADirectoryError)


class CannotRun(ToolkitError):
    """A command that cannot be run; the exit code is that of a shell."""

    exit_code = 126


class CommandNotFound(CannotRun):
    """A command that does not exist; the exit code is that of a shell."""

    exit_code = 127


def require_program(program: str) -> None:
    """Raise CannotRun if `replace_process` would not find a program by this name, searching as `execvp` does."""
    if not program:
        raise CommandNotFound("'' cannot be run: it does not exist")
    paths = [program] if "/" in program else [os.path.join(directory, program) for directory in os.get_exec_path()]
    obstacles: list[OSError] = []
    for path in paths:
        obstacle = _obstacle(path)
        if obstacle is None:
            return
        obstacles.append(obstacle)
    # A file that may not be run explains more than the directories without one.
    refused = [error for error in obstacles if not isinstance(error, MISSING_ERRORS)]
    raise _cannot_run(program, next(iter(refused or reversed(obstacles)), FileNotFoundError(errno.ENOENT, "")))


def replace_process(argv: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Replace this process by a command, which keeps the process id; CannotRun.

    Signals, job control and the exit code are then the command's own.
    """
    for stream in (sys.stdout, sys.stderr):
        # Output that cannot be written must not keep a command from running.
        with suppress(OSError, ValueError):
            if stream is not None:
                stream.flush()
    # Python ignores these signals, and the next program would inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    # Python acts on a Ctrl-C only at its next instruction, which never comes after the call below.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], list(argv), dict(environment))
    except OSError as error:
        raise _cannot_run(argv[0], error) from error


def end_by(number: int) -> NoReturn:
    """End by a signal, so that a shell script that runs this program ends too."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    sys.exit(128 + number)


def _obstacle(path: str) -> OSError | None:
    try:
        is_directory = stat.S_ISDIR(os.stat(path).st_mode)
    except OSError as error:
        return error
    is_program = not is_directory and os.access(path, os.X_OK, effective_ids=True)
    return None if is_program else PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _cannot_run(program: str, error: OSError) -> CannotRun:
    if isinstance(error, FileNotFoundError):
        return CommandNotFound(f"{program} cannot be run: {reason(error)}")
    return CannotRun(f"{program} cannot be run: {reason(error)}")
