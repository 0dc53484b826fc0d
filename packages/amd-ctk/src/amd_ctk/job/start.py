"""Become a command, or end as one does: for what started this process there is no difference."""

from __future__ import annotations

import os
import signal
import sys

from amdgpu_discovery.errors import ToolkitError, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn


class CannotRun(ToolkitError):
    """A command that cannot be run, as a shell says it."""

    exit_code = 126


class CommandNotFound(CannotRun):
    """A command that does not exist, as a shell says it."""

    exit_code = 127


def require_command(words: Sequence[str], wait: str | None) -> None:
    """Raise where waiting for GPUs would be in vain: no program, or the time to `wait` in the place of one."""
    from shutil import which

    from amd_gpu_tracker import WaitRefused

    program = words[0]
    if not program:
        raise CommandNotFound("'' cannot be run: it does not exist")
    is_time = program.rstrip("smhd").isdecimal()
    if wait == "" and is_time and which(program) is None:
        raise WaitRefused(f"{program!r} is no program", hint=f"write --wait={program}")


def become(words: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Run a command in place of this process, which keeps its id and with it what it has reserved; CannotRun.

    So signals, job control and the exit code are the command's own.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    # Python ignores these, and what is ignored stays so in the next program.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(words[0], list(words), {**os.environ, **environment})
    except FileNotFoundError as error:
        raise CommandNotFound(f"{words[0]} cannot be run: {reason(error)}") from error
    except (OSError, ValueError) as error:
        why = reason(error) if isinstance(error, OSError) else error
        raise CannotRun(f"{words[0]} cannot be run: {why}") from error


def end_by(number: int) -> NoReturn:
    """End by a signal, so that a shell which runs this in a script ends too."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    sys.exit(128 + number)
