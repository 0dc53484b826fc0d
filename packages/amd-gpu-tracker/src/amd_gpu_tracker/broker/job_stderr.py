"""Say something on the standard error of another process, as that process could say it itself."""

from __future__ import annotations

import ctypes
import os
import select
from functools import partial

from amd_gpu_tracker.broker.child import Children
from amd_gpu_tracker.broker.job_processes import open_process
from amd_gpu_tracker.life.processes import Processes
from amd_gpu_tracker.records.job_ids import owner_of
from amd_gpu_tracker.records.lease import Lease, ProcessId
from amdgpu_discovery.plain_text import one_line

# Of asm-generic/unistd.h, the same on every architecture.
PIDFD_GETFD = 438
STANDARD_ERROR = 2
# A program that reads nothing keeps what is said to it for no longer.
SAYING_SECONDS = 5


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
        return _say(ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, opened, STANDARD_ERROR, 0), sentence)
    finally:
        os.close(opened)


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
