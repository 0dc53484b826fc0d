"""Run slow work, such as writing to a job's terminal, in child processes, so that no client waits for it."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable, Iterable
from functools import partial

from amd_gpu_sharing.broker.jobs.job_processes import open_process
from amd_gpu_tracker.book.job_ids import owner_of
from amd_gpu_tracker.book.lease import Lease, ProcessId
from amd_gpu_tracker.leases.processes import FIRST_PROCESS, Processes
from amdgpu_discovery.untrusted.mounts import read_mounts
from amdgpu_discovery.untrusted.plain_files import mount_of
from amdgpu_discovery.untrusted.plain_text import one_line

# From asm-generic/unistd.h, the same on every architecture.
PIDFD_GETFD = 438
STANDARD_ERROR = 2
# Time limit for writing to a program that does not read.
PRINT_SECONDS = 5


class Children:
    """The children that this process has started and not yet reaped."""

    def __init__(self) -> None:
        self.running: set[int] = set()

    def start(self, act: Callable[[], object], *, seconds: int = 0, keep: Iterable[int] = ()) -> int:
        """Run `act` in a child, for at most `seconds` if not 0, and return its process id.

        The child keeps only the log and the descriptors in `keep` open, so that it holds no client's connection.
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
        """Wait for the end of a child, but at most `seconds`."""
        opened = os.pidfd_open(pid)
        select.select([opened], [], [], seconds)
        os.close(opened)

    def collect(self) -> None:
        """Reap the children that have ended."""
        for pid in list(self.running):
            if os.waitpid(pid, os.WNOHANG)[0]:
                self.running.discard(pid)


def print_to_job(job: Lease, sentence: str, processes: Processes, children: Children) -> int:
    """Write a sentence to a job's first process with `print_to_process`, in a child; return the child's process id."""
    act = partial(print_to_process, job.init or job.creator, owner_of(job.container_id), sentence, processes)
    return children.start(act, seconds=PRINT_SECONDS)


def print_to_process(process: ProcessId, owner: int, sentence: str, processes: Processes) -> bool:
    """Write a sentence to the standard error of a user's process; return False if nothing could be written.

    This uses the process's own open file, with the rights it was opened with. So a user who points it at a file that
    only root may write gains nothing.
    """
    opened = open_process(process, processes)
    if opened is None:
        return False
    try:
        if processes.uid(process.pid) != owner:
            return False
        stream = ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, opened, STANDARD_ERROR, 0)
        return _is_safe_to_write(stream, process.pid, processes) and _print(stream, sentence)
    finally:
        os.close(opened)


def _is_safe_to_write(stream: int, pid: int, processes: Processes) -> bool:
    """Return whether a file of a process is safe to write, that is, on no file system that a user serves by FUSE.

    Such a file system may never answer, and no signal ends the wait. Therefore ask the kernel for the number of the
    mount. Looking at the file itself would wait, too.
    """
    try:
        if not os.readlink(f"/proc/self/fd/{stream}").startswith("/"):
            return True
        number = mount_of(stream)
        # A process with its own mounts may still have a file of the host open. In a user namespace, a user's mounts
        # claim to be served by root, or may be an overlay of a FUSE mount; only the host's list is trusted there.
        has_own = processes.link(pid, "ns/user") != processes.link("self", "ns/user")
        for each in (FIRST_PROCESS,) if has_own else (pid, FIRST_PROCESS):
            mounts = read_mounts(f"{processes.directory}/{each}/mountinfo")
            mount = next((mount for mount in mounts if mount.number == number), None)
            if mount is not None:
                return not mount.is_fuse or b"user_id=0" in mount.options
    except OSError:
        pass
    return False


def _print(stream: int, sentence: str) -> bool:
    if stream < 0:
        return False
    poll = select.poll()
    poll.register(stream, select.POLLOUT)
    # Do not wait for a full pipe.
    if not any(events & select.POLLOUT for _, events in poll.poll(0)):
        return False
    # In raw mode, a terminal needs the carriage return to start at the left.
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
