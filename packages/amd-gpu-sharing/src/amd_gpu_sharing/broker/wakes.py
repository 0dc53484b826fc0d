"""Events that wake the broker besides clients: changes of leases and settings, and processes that end."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from contextlib import suppress

from amd_gpu_tracker.book.lease import ProcessId

# From sys/inotify.h.
IN_ATTRIB, IN_MOVED_TO, IN_CREATE, IN_DELETE = 0x4, 0x80, 0x100, 0x200
EVENT_BYTES = 65536


class Wakes:
    """Descriptors that become readable when something has changed."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._events: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._pidfds: dict[ProcessId, int] = {}
        # Whether some event cannot be watched, so that the broker has to poll.
        self.must_poll = self._events < 0

    def watch(self, paths: Iterable[str], events: int = IN_MOVED_TO | IN_CREATE | IN_DELETE) -> None:
        """Watch for files that come and go in these directories; call again for a directory that did not exist yet."""
        for path in paths if self._events >= 0 else ():
            self._libc.inotify_add_watch(self._events, os.fsencode(path), events)

    def watch_access(self, paths: Iterable[str]) -> None:
        """Watch also for changes of permissions of these nodes, or of nodes in these directories."""
        self.watch(paths, IN_ATTRIB | IN_MOVED_TO | IN_CREATE)

    def watch_processes(self, processes: Iterable[ProcessId]) -> None:
        """Watch for the end of these processes, and of no others."""
        wanted = set(processes)
        for process in set(self._pidfds) - wanted:
            os.close(self._pidfds.pop(process))
        self.must_poll = self._events < 0
        for process in wanted - set(self._pidfds):
            try:
                self._pidfds[process] = os.pidfd_open(process.pid)
            except ProcessLookupError:
                continue
            except OSError:
                self.must_poll = True

    def descriptors(self) -> list[int]:
        """Return the descriptors to poll."""
        descriptors = list(self._pidfds.values())
        if self._events >= 0:
            descriptors.append(self._events)
        return descriptors

    def clear(self) -> None:
        """Discard the events so far."""
        with suppress(BlockingIOError):
            while self._events >= 0 and os.read(self._events, EVENT_BYTES):
                pass
