"""`gpu-tracker serve`: the broker as a process of its own."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import partial

from amd_gpu_tracker.broker.desk import Desk
from amd_gpu_tracker.broker.ending import GRACE_SECONDS
from amd_gpu_tracker.broker.listening import take_listener
from amd_gpu_tracker.broker.server import IDLE_SECONDS, Server
from amd_gpu_tracker.errors import needs_root
from amd_gpu_tracker.life.processes import Processes
from amd_gpu_tracker.records.lock import KernelLock
from amd_gpu_tracker.records.plain_text import one_line
from amd_gpu_tracker.records.state import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_gpu_tracker.broker.terms import FindTerms
    from amdgpu_discovery.host import Host

# Container starts hold the lock for milliseconds; who holds it longer must not hold up all clients.
LOCK_SECONDS = 5.0


def serve(host: Host, find_terms: FindTerms, *, listen: str = "", grace: float = GRACE_SECONDS) -> None:
    """Serve the clients of a host until nobody needs it; at a path that was named, until a signal ends it.

    What is ended because its time is over has `grace` seconds between TERM and KILL.
    """
    if os.geteuid():
        raise needs_root()
    state, processes = State(host), Processes()
    listener = take_listener(listen, os.environ)
    desk = Desk(state, processes, partial(KernelLock, timeout=LOCK_SECONDS), find_terms, _log, grace=grace)
    Server(listener, state, processes, desk, idle_seconds=None if listen else IDLE_SECONDS).run()


def _log(sentence: str) -> None:
    """Write a line for audits; systemd takes standard error into the journal."""
    # A journal that starts again must not take the service along.
    with suppress(OSError):
        print(one_line(sentence), file=sys.stderr, flush=True)
