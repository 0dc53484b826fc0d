"""Wait until GPUs may have become free: by the end of a holder's process, or by a change among the leases.

The kernel tells both: a pidfd is readable when its process has ended, inotify when a file is written or removed.
Python has no inotify of its own. Where either is not to be had, as under some limits, a look at short intervals takes
its place.
"""

from __future__ import annotations

import ctypes
import os
import select
from contextlib import suppress

from amd_gpu_tracker.errors import StateError
from amd_gpu_tracker.life.liveness import judge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from amd_gpu_tracker.life.processes import Processes
    from amd_gpu_tracker.records.lease import ProcessId
    from amd_gpu_tracker.records.state import State

# Of sys/inotify.h.
IN_MOVED_TO, IN_CREATE, IN_DELETE = 0x80, 0x100, 0x200
# What no event tells: a container of a user ends, GPUs come.
LONGEST_SECONDS = 1.0
SECONDS_WITHOUT_EVENTS = 0.05
MOST_PROCESSES = 256


class Releases:
    """What is waited for by the first in the queue; closed at the end of its `with` block."""

    __slots__ = ("_events", "_is_blind", "_pidfds", "_processes", "_state")

    def __init__(self, state: State, processes: Processes) -> None:
        self._state = state
        self._processes = processes
        self._pidfds: list[int] = []
        self._is_blind = False
        self._events = _watch_directories((state.leases_directory, os.path.dirname(state.policy_path)))

    def __enter__(self) -> Releases:
        return self

    def __exit__(self, *_: object) -> None:
        self._close_pidfds()
        if self._events is not None:
            os.close(self._events)

    def look(self) -> None:
        """Begin to listen for the end of those that hold GPUs now, and forget what was heard before."""
        self._close_pidfds()
        self._is_blind = self._events is None
        if self._events is not None:
            with suppress(BlockingIOError):
                os.read(self._events, 65536)
        for process in self._holders():
            self._follow(process)

    def wait(self, others: Iterable[int], seconds: float) -> None:
        """Wait until something was heard since `look`, one of the `others` can be read, or the time is over."""
        poll = select.poll()
        for descriptor in (*self._pidfds, *others, *(() if self._events is None else (self._events,))):
            poll.register(descriptor, select.POLLIN)
        longest = SECONDS_WITHOUT_EVENTS if self._is_blind else LONGEST_SECONDS
        poll.poll(int(min(seconds, longest) * 1000) + 1)

    def _holders(self) -> Iterable[ProcessId]:
        for path in self._state.lease_paths()[:MOST_PROCESSES]:
            try:
                lease = self._state.read_lease(path)
            except StateError:
                continue
            if lease is None or lease.namespace != self._processes.namespace:
                continue
            verdict = judge(lease, self._processes)
            if verdict.is_alive:
                yield verdict.found_init or lease.init or lease.creator

    def _follow(self, process: ProcessId) -> None:
        try:
            self._pidfds.append(os.pidfd_open(process.pid))
        except ProcessLookupError:
            return
        except OSError:
            self._is_blind = True

    def _close_pidfds(self) -> None:
        while self._pidfds:
            os.close(self._pidfds.pop())


def _watch_directories(directories: Iterable[str]) -> int | None:
    """Return a descriptor that is readable when files in these directories come and go, None where there is none."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        events = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    except (AttributeError, OSError):
        return None
    if events < 0:  # a user may have 128 at most, unless fs.inotify.max_user_instances says otherwise
        return None
    for directory in directories:
        libc.inotify_add_watch(events, os.fsencode(directory), IN_MOVED_TO | IN_CREATE | IN_DELETE)
    return int(events)
