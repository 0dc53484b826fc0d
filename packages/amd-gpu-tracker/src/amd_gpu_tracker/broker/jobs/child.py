"""Do in a process of its own what may take long, as saying something to a job, so that no client waits for it."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable, Iterable
from functools import partial

from amd_gpu_tracker.broker.jobs.job_processes import open_process
from amd_gpu_tracker.life.processes import FIRST_PROCESS, Processes
from amd_gpu_tracker.records.job_ids import owner_of
from amd_gpu_tracker.records.lease import Lease, ProcessId
from amdgpu_discovery.files import read_file
from amdgpu_discovery.plain_text import one_line

# Of asm-generic/unistd.h, the same on every architecture.
PIDFD_GETFD = 438
STANDARD_ERROR = 2
# A program that reads nothing keeps what is said to it for no longer.
SAYING_SECONDS = 5
# Of a mount namespace: hosts with thousands of containers have less.
LARGEST_MOUNTS = 16 * 1024 * 1024


class Children:
    """The processes that this one has begun and not collected yet."""

    def __init__(self) -> None:
        self.running: set[int] = set()

    def start(self, act: Callable[[], object], *, seconds: int = 0, keep: Iterable[int] = ()) -> int:
        """Do something in a process of its own, for `seconds` at most where they are given, and return its id.

        Of the descriptors of this one it has the log and those to `keep`, so that it keeps no client's connection open.
        """
        pid = os.fork()
        if pid:
            self.running.add(pid)
            return pid
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            signal.alarm(seconds)
            _close_others({sys.stderr.fileno(), *keep})
            act()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)

    def wait(self, pid: int, seconds: float) -> None:
        """Wait for the end of one of them, but no longer than some seconds."""
        opened = os.pidfd_open(pid)
        select.select([opened], [], [], seconds)
        os.close(opened)

    def collect(self) -> None:
        """Collect those that have ended."""
        for pid in list(self.running):
            if os.waitpid(pid, os.WNOHANG)[0]:
                self.running.discard(pid)


def say_to_job(job: Lease, sentence: str, processes: Processes, children: Children) -> int:
    """Let a process of its own say a sentence to a job's first process, as `say_to` does, and return its id."""
    act = partial(say_to, job.init or job.creator, owner_of(job.container_id), sentence, processes)
    return children.start(act, seconds=SAYING_SECONDS)


def say_to(process: ProcessId, owner: int, sentence: str, processes: Processes) -> bool:
    """Write a sentence to the standard error of a user's process; False where that takes nothing now.

    It is the process's own open file, with the rights with which it was opened: who points it at a file that only root
    may write gets nothing written there.
    """
    opened = open_process(process, processes)
    if opened is None:
        return False
    try:
        if processes.uid(process.pid) != owner:
            return False
        stream = ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, opened, STANDARD_ERROR, 0)
        return _answers(stream, process.pid, processes) and _say(stream, sentence)
    finally:
        os.close(opened)


def _answers(stream: int, pid: int, processes: Processes) -> bool:
    """Return whether a file of a process is on no file system that a user serves by FUSE.

    That may never answer, and no signal ends who waits for it. The kernel is asked for the number of the mount; to look
    at the file itself is to wait.
    """
    try:
        if not os.readlink(f"/proc/self/fd/{stream}").startswith("/"):
            return True
        lines = read_file(f"/proc/self/fdinfo/{stream}").splitlines()
        number = next(line.split()[1] for line in lines if line.startswith(b"mnt_id:"))
        # A process with mounts of its own may have kept a file of the host's. What a user mounts in a user namespace
        # says that root serves it, or may be an overlay of it.
        has_own = processes.link(pid, "ns/user") != processes.link("self", "ns/user")
        for each in (FIRST_PROCESS,) if has_own else (pid, FIRST_PROCESS):
            mounts = read_file(f"{processes.directory}/{each}/mountinfo", largest=LARGEST_MOUNTS).splitlines()
            if found := next((line for line in mounts if line.split(b" ", 1)[0] == number), None):
                kind, _, options = found.rpartition(b" - ")[2].split(b" ", 2)
                return not kind.startswith(b"fuse") or b"user_id=0" in options.split(b",")
    except OSError:
        pass
    return False


def _say(stream: int, sentence: str) -> bool:
    if stream < 0:
        return False
    poll = select.poll()
    poll.register(stream, select.POLLOUT)
    # A pipe that is full takes nothing, and is not waited for.
    if not any(events & select.POLLOUT for _, events in poll.poll(0)):
        return False
    # A program may have the terminal in raw mode, where a new line does not begin at the left.
    end = "\r\n" if os.isatty(stream) else "\n"
    try:
        return os.write(stream, f"{one_line(sentence)}{end}".encode()) > 0
    except OSError:
        return False


def _close_others(kept: Iterable[int]) -> None:
    first = 3
    for each in sorted(kept):
        os.closerange(first, each)
        first = max(first, each + 1)
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))
