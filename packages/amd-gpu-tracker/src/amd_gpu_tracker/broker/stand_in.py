"""Stand in for the service if there is none: a process that serves one user's waiters while there are some.

The first waiting job does what systemd does elsewhere: it makes the socket and starts the process, an orphan that
has a session of its own, so that neither Ctrl-Z nor the end of a job stops the queue. If it is killed, the next job
that waits starts it again; tickets and leases are on disk.
"""

from __future__ import annotations

import fcntl
import os
import sys

from amd_gpu_tracker.broker.client import is_answered
from amd_gpu_tracker.broker.protocol import find_socket
from amd_gpu_tracker.errors import needs_root
from amd_gpu_tracker.life.processes import Processes
from amd_gpu_tracker.records.state import State
from amdgpu_discovery.errors import FileError, reason

SOCKET_NAME = "waiting.socket"
# Locked by the process that serves, from before it exists.
LOCK_NAME = "waiting.lock"
# The process that is started ends at once: its child has no parent that would have to collect it.
PROGRAM = """
import os, sys
if os.fork():
    os._exit(0)
sys.path[:] = sys.argv[4:]
from amd_gpu_tracker.broker.serve import serve_waiters
serve_waiters(sys.argv[1], sys.argv[2], int(sys.argv[3]))
"""


def find_service(state: State, processes: Processes) -> str:
    """Return the socket at which to wait: the service's for root, else one of the user's own, where a process listens.

    FileError if no process can be made to. The listening process may end a moment later.
    """
    served = "" if os.geteuid() else find_socket(state.host)
    if served and is_answered(served):
        return served
    path = f"{state.run_directory}/{SOCKET_NAME}"
    if not is_answered(path):
        _start(state, path, processes)
    return path


def _start(state: State, path: str, processes: Processes) -> None:
    """Start the process that listens, unless another waiter does so now."""
    from amd_gpu_tracker.broker.serve import ONLY_OWNER, listen

    lock_path = f"{state.run_directory}/{LOCK_NAME}"
    try:
        lock = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except PermissionError as error:
        raise needs_root() from error
    except OSError as error:
        raise FileError(f"{lock_path} cannot be opened: {reason(error)}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with listen(path, ONLY_OWNER) as listener:
            _start_process((state.host.root, processes.directory), listener.fileno(), lock)
    except BlockingIOError:
        return
    finally:
        os.close(lock)


def _start_process(directories: tuple[str, ...], listener: int, lock: int) -> None:
    import subprocess

    paths = [os.path.abspath(path) for path in sys.path]
    words = [sys.executable, "-I", "-c", PROGRAM, *directories, str(listener), *paths]
    quiet = subprocess.DEVNULL
    try:
        subprocess.run(
            words,
            stdin=quiet,
            stdout=quiet,
            stderr=quiet,
            cwd="/",
            pass_fds=(listener, lock),
            start_new_session=True,
            check=False,
        )
    except OSError as error:
        raise FileError(f"{sys.executable} cannot be run: {reason(error)}") from error
