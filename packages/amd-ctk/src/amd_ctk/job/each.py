"""Run a command once for each line of a file: some at a time, each with its own GPUs and log."""

from __future__ import annotations

import os
import signal
import sys
from collections import deque
from contextlib import suppress
from functools import partial

from amd_ctk.job.run import plan_job, run_job
from amd_ctk.job.start import require_command
from amdgpu_discovery.command_line.parameters import PLACE, lines_from, parse_lines, read_parameters
from amdgpu_discovery.command_line.process import end_by
from amdgpu_discovery.command_line.standard_output import print_error
from amdgpu_discovery.command_line.stderr import print_note
from amdgpu_discovery.errors import FileError, ToolkitError, reason
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.untrusted.plain_text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType
    from typing import Any, NoReturn

    from amd_ctk.job.start import PlannedJob
    from amdgpu_discovery.host import Host

# Exit codes from 126 on have other meanings; GNU parallel counts the same way.
MOST_FAILED = 101
# The failed lines that the last message lists.
MOST_FAILED_LINES = 20
# Signals that end the jobs too.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
HANDLED = (*ENDING, signal.SIGTSTP)
NEW_LOG = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


def run_each(
    host: Host,
    command: Sequence[str],
    *,
    file: str,
    output: str,
    at_once: int | None,
    first: int,
    name: str,
    **options: Any,
) -> NoReturn:
    """Run a job for each line of `file`; exit with the number of failed jobs, at most 101, or by a signal.

    `file` is `-` for standard input, `output` the directory for the logs, `at_once` how many jobs run or wait (None: as
    many as there are GPUs), `first` the line to begin with, `name` the start of the jobs' names, and `options` are
    those of `plan_job`. ParametersError, CannotRun and FileError before the first job starts.
    """
    lines = lines_from(parse_lines(read_parameters(file), file), first, file)
    if PLACE not in command[0]:
        require_command(command, options["wait"])
    try:
        os.makedirs(output, exist_ok=True)
    except OSError as error:
        hint = "name another directory for the logs"
        raise FileError(f"{output} cannot be made: {reason(error)}", hint=hint) from error
    waiting = deque(lines)
    at_once = at_once or len(locate_gpus(host)) or 1
    with _Jobs(host, output) as jobs:
        while jobs.running or (waiting and not jobs.ended_by):
            if waiting and not jobs.ended_by and len(jobs.running) < at_once:
                line = waiting.popleft()
                plan = partial(plan_job, line.fill(command), name=f"{name}-{line.number}", **options)
                jobs.start(line.number, plan)
            else:
                jobs.wait_for_one()
    _end(jobs, [*jobs.unfinished, *(line.number for line in waiting)], len(lines))


def _end(jobs: _Jobs, unfinished: Sequence[int], count: int) -> NoReturn:
    """Print the result, and exit with its code or signal."""
    if jobs.ended_by:
        if unfinished:
            ended = count - len(unfinished)
            print_note(f"Stopped after {ended} of {count} jobs. Continue with --from-line={min(unfinished)}")
        end_by(jobs.ended_by)
    failed = sorted(jobs.failed)
    lines = ", ".join(map(str, failed[:MOST_FAILED_LINES])) + (" and more" if len(failed) > MOST_FAILED_LINES else "")
    word = "line" if len(failed) == 1 else "lines"
    result = f", {len(failed)} failed: {word} {lines}" if failed else ""
    print_note(f"{count} job{'' if count == 1 else 's'} ended{result}")
    sys.exit(min(len(failed), MOST_FAILED))


class _Jobs:
    """The running jobs and how others ended; it passes signals on to the running jobs.

    Each job leads its own process group, so that its descendants get these signals too, and get them once.
    """

    def __init__(self, host: Host, directory: str) -> None:
        self._host = host
        self.running: dict[int, int] = {}
        self.failed: list[int] = []
        self.unfinished: list[int] = []
        self.ended_by = 0
        self._directory = directory
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Jobs:
        self._before = {number: signal.getsignal(number) for number in HANDLED}
        for number in ENDING:
            # A signal that the caller ignores, as nohup does, stays ignored for the jobs.
            if self._before[number] != signal.SIG_IGN:
                signal.signal(number, self._end_all)
        signal.signal(signal.SIGTSTP, self._stop_all)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def start(self, line: int, plan: Callable[[], PlannedJob]) -> None:
        """Start the job of a line; its log has the number of the line as name."""
        # A signal that arrives before the job is known would not reach it.
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        pid = os.fork()
        if pid == 0:
            self._become(line, plan)
        self.running[pid] = line
        # Both processes do this, because either may be first.
        with suppress(OSError):
            os.setpgid(pid, pid)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)

    def wait_for_one(self) -> None:
        """Wait until a job ends, and print a message if it failed."""
        pid, status = os.wait()
        line = self.running.pop(pid)
        code = os.waitstatus_to_exitcode(status)
        if self.ended_by:
            self.unfinished += [line] if code else []
        elif code:
            self.failed.append(line)
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"failed with exit code {code}"
            print_note(printable(f"Line {line} {how}: see {self._log(line)}"))

    def _become(self, line: int, plan: Callable[[], PlannedJob]) -> NoReturn:
        try:
            os.setpgid(0, 0)
            self._restore()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
            self._write_to_log(line)
            # Words that are wrong for one line only are an error of its job.
            run_job(self._host, plan())
        except ToolkitError as error:
            print_error(printable(str(error)))
            os._exit(error.exit_code)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        # The rest of the stack belongs to the parent process.
        os._exit(1)

    def _write_to_log(self, line: int) -> None:
        path = self._log(line)
        try:
            log = os.open(path, NEW_LOG, 0o666)
        except OSError as error:
            raise FileError(f"{path} cannot be written: {reason(error)}") from error
        os.dup2(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)

    def _log(self, line: int) -> str:
        return os.path.join(self._directory, f"{line}.log")

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _end_all(self, number: int, _: FrameType | None) -> None:
        self.ended_by = number
        self._signal_all(number)

    def _stop_all(self, *_: object) -> None:
        # The kernel ignores SIGTSTP in groups without a shell, so send SIGSTOP.
        self._signal_all(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: int) -> None:
        for pid in self.running:
            with suppress(ProcessLookupError):
                os.killpg(pid, number)
