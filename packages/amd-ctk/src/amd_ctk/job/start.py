"""Become a command, or end as one does: for what started this process there is no difference."""

from __future__ import annotations

import errno
import os
import signal
import stat
import sys
from contextlib import suppress

from amd_device_spec.slurm.job_gpus import FILTERS
from amd_gpu_tracker import Reservation, WaitRefused
from amdgpu_discovery.errors import ToolkitError, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

# Of a program that is looked for in several directories: it is not in this one.
NOT_THERE = (FileNotFoundError, NotADirectoryError)


class CannotRun(ToolkitError):
    """A command that cannot be run, as a shell says it."""

    exit_code = 126


class CommandNotFound(CannotRun):
    """A command that does not exist, as a shell says it."""

    exit_code = 127


def require_command(words: Sequence[str], wait: str | None) -> None:
    """Raise where waiting for GPUs would be in vain: no program, or the time to `wait` in the place of one."""
    program = words[0]
    try:
        require_program(program)
    except CannotRun:
        if wait == "" and program.rstrip("smhd").isdecimal():
            raise WaitRefused(f"{program!r} is not a program", hint=f"write --wait={program}") from None
        raise


def require_program(word: str) -> None:
    """Raise CannotRun where `become` would not find a program by this name, as `execvp` looks for it."""
    if not word:
        raise CommandNotFound("'' cannot be run: it does not exist")
    paths = [word] if "/" in word else [os.path.join(directory, word) for directory in os.get_exec_path()]
    obstacles: list[OSError] = []
    for path in paths:
        obstacle = _obstacle(path)
        if obstacle is None:
            return
        obstacles.append(obstacle)
    # One that may not be run is nearer to what was meant than the directories without it.
    refused = [error for error in obstacles if not isinstance(error, NOT_THERE)]
    raise _cannot_run(word, next(iter(refused or reversed(obstacles)), FileNotFoundError(errno.ENOENT, "")))


def become(words: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Run a command in place of this process, which keeps its id and with it what it has reserved; CannotRun.

    So signals, job control and the exit code are the command's own. Filters of the caller would choose a second time,
    among the GPUs that are left; so those that are not in `environment` are removed.
    """
    for stream in (sys.stdout, sys.stderr):
        # What cannot be said must not keep a command from running.
        with suppress(OSError, ValueError):
            if stream is not None:
                stream.flush()
    # Python ignores these, and what is ignored stays so in the next program.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    # Python only notes a Ctrl-C and acts on it at its next instruction, which never comes after the call below.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    inherited = {name: value for name, value in os.environ.items() if name not in (*FILTERS, Reservation.VARIABLE)}
    try:
        os.execvpe(words[0], list(words), {**inherited, **environment})
    except OSError as error:
        raise _cannot_run(words[0], error) from error


def end_by(number: int) -> NoReturn:
    """End by a signal, so that a shell which runs this in a script ends too."""
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


def _cannot_run(word: str, error: OSError) -> CannotRun:
    if isinstance(error, FileNotFoundError):
        return CommandNotFound(f"{word} cannot be run: {reason(error)}")
    return CannotRun(f"{word} cannot be run: {reason(error)}")
