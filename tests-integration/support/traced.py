"""Processes that stop at their system calls, so that tests can kill them there.

`Traced(operation)` runs an operation in a child process. The kernel (ptrace) stops it at the beginning of every system
call, so a test can examine each moment of its life: between two of these points, nothing changes for other processes.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# From sys/ptrace.h.
TRACEME, SYSCALL, SET_OPTIONS = 0, 24, 0x4200
KILL_WITH_TRACER, MARK_SYSTEM_CALLS = 0x100000, 1
SYSTEM_CALL = signal.SIGTRAP | 0x80
# Most system calls end before a sleep would. A process that has not reached the next one by then may be blocked.
YIELDS_BEFORE_SLEEP = 50
POLL_SECONDS = 0.0005


class Traced:
    """A process stopped at its first system call; use it as a context manager, which kills it."""

    def __init__(self, operation: Callable[[], object]) -> None:
        self._ptrace = _load_ptrace()
        self._is_over = False
        self.pid = os.fork()
        if not self.pid:
            self._run(operation)
        os.waitpid(self.pid, 0)
        self._ptrace(SET_OPTIONS, self.pid, 0, KILL_WITH_TRACER | MARK_SYSTEM_CALLS)
        self._go(_ignore)

    def __enter__(self) -> Traced:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def step(self, when_blocked: Callable[[], object]) -> bool:
        """Continue to the beginning of the next system call; False if the process has ended.

        `when_blocked` is called each time that the process is found waiting.
        """
        # The first stop is the end of the current system call.
        return self._go(when_blocked) and self._go(when_blocked)

    def kill(self) -> None:
        """Kill the process at its current system call."""
        if not self._is_over:
            self._is_over = True
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def _run(self, operation: Callable[[], object]) -> None:
        try:
            self._ptrace(TRACEME, 0, 0, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
            with contextlib.suppress(Exception):
                operation()
        finally:
            os._exit(0)

    def _go(self, when_blocked: Callable[[], object]) -> bool:
        number = 0
        while not self._is_over:
            self._ptrace(SYSCALL, self.pid, 0, number)
            status = self._wait(when_blocked)
            self._is_over = not os.WIFSTOPPED(status)
            if not self._is_over and os.WSTOPSIG(status) == SYSTEM_CALL:
                return True
            # The end of an exec appears as SIGTRAP, which nobody sent. Any other signal is passed on.
            number = 0 if self._is_over or os.WSTOPSIG(status) == signal.SIGTRAP else os.WSTOPSIG(status)
        return False

    def _wait(self, when_blocked: Callable[[], object]) -> int:
        for tries in itertools.count():
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                break
            if tries < YIELDS_BEFORE_SLEEP:
                os.sched_yield()
                continue
            if self._is_asleep():
                when_blocked()
            time.sleep(POLL_SECONDS)
        return status

    def _is_asleep(self) -> bool:
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2].startswith("S")


def _ignore() -> None:
    """Do nothing."""


def _load_ptrace() -> Callable[[int, int, int, int], None]:
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.restype = ctypes.c_long
    ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)

    def call(request: int, pid: int, address: int, value: int) -> None:
        if ptrace(request, pid, address, value) < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))

    return call
