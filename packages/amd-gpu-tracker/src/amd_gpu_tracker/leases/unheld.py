"""Since when memory of GPUs has been in use that no process holds, as root has seen it.

Only root sees all processes: to a user, memory of others would look leaked. So users read what root has recorded.
"""

from __future__ import annotations

from amd_gpu_tracker.book.state import UNHELD_FILE, State, read_if_there
from amdgpu_discovery.errors import FileError
from amdgpu_discovery.files import make_directories, replace_file
from amdgpu_discovery.untrusted.plain_json import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from amdgpu_discovery.host import Host

# The driver needs some seconds to free the memory of a process that has ended.
LEAKED_SECONDS = 60.0


def find_leaked(host: Host, unheld: Mapping[str, bool], *, now: float, sees_all: bool) -> frozenset[str]:
    """Return the keys of GPUs whose memory no process has held for LEAKED_SECONDS.

    `unheld` says for each GPU of this look, by key, whether only memory is in use and no process of it was seen. A look
    that `sees_all` processes is recorded. `now` is in seconds since boot.
    """
    path = f"{State(host).run_directory}/{UNHELD_FILE}"
    before = _read(path)
    since = {key: before.get(key, now) for key, is_unheld in unheld.items() if is_unheld}
    if sees_all:
        after = {key: began for key, began in before.items() if key not in unheld} | since
        if after != before:
            _write(path, after)
    return frozenset(key for key in since if key in before and now - since[key] >= LEAKED_SECONDS)


def _read(path: str) -> dict[str, float]:
    try:
        found = loads(read_if_there(path) or b"{}")
        return {str(key): float(began) for key, began in found.items()}
    except (AttributeError, RecursionError, TypeError, ValueError):
        return {}


def _write(path: str, since: Mapping[str, float]) -> None:
    """Record a look; on a full disk, nothing is recorded."""
    try:
        make_directories(path.rpartition("/")[0])
        replace_file(path, dumps(dict(since)) + b"\n", mode=0o644)
    except FileError:
        return
