"""What wakes the broker beside its clients: leases and settings that change, processes that end."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from contextlib import suppress

from amd_gpu_tracker.records.lease import ProcessId

# Of sys/inotify.h.
IN_ATTRIB, IN_MOVED_TO, IN_CREATE, IN_DELETE = 0x4, 0x80, 0x100, 0x200
SEVERAL_EVENTS = 65536


class Wakes:
    """Descriptors that are readable when something changed."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._events: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._pidfds: dict[ProcessId, int] = {}
        # Whether something is not told, so that it has to be looked at.
        self.is_blind = self._events < 0

    def watch(self, paths: Iterable[str], events: int = IN_MOVED_TO | IN_CREATE | IN_DELETE) -> None:
        """Be woken when files in these directories come and go; one that is not there is watched when it is."""
        for path in paths if self._events >= 0 else ():
            self._libc.inotify_add_watch(self._events, os.fsencode(path), events)

    def watch_access(self, paths: Iterable[str]) -> None:
        """Be woken also when a program changes who may open these nodes, or those in these directories."""
        self.watch(paths, IN_ATTRIB | IN_MOVED_TO | IN_CREATE)

    def follow(self, processes: Iterable[ProcessId]) -> None:
        """Be woken when one of these processes ends, and by no other."""
        wanted = set(processes)
        for process in set(self._pidfds) - wanted:
            os.close(self._pidfds.pop(process))
        self.is_blind = self._events < 0
        for process in wanted - set(self._pidfds):
            try:
                self._pidfds[process] = os.pidfd_open(process.pid)
            except ProcessLookupError:
                continue
            except OSError:
                self.is_blind = True

    def descriptors(self) -> list[int]:
        """Return what is to be polled."""
        return [*self._pidfds.values(), *((self._events,) if self._events >= 0 else ())]

    def hear(self) -> None:
        """Forget what was told until now."""
        with suppress(BlockingIOError):
            while self._events >= 0 and os.read(self._events, SEVERAL_EVENTS):
                pass
