"""Run work that may take long in a process of its own, so that no client waits for it."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable


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

    def collect(self) -> None:
        """Collect those that have ended."""
        for pid in list(self.running):
            if os.waitpid(pid, os.WNOHANG)[0]:
                self.running.discard(pid)


def _close_others(kept: Iterable[int]) -> None:
    first = 3
    for each in sorted(kept):
        os.closerange(first, each)
        first = max(first, each + 1)
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))
