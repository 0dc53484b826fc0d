"""Where a rootless run keeps its leases: in the runtime directory of the user whose namespace it is.

Root inside a system container (LXC) has a uid map too, but no runtime directory of an outer user: it is root.
"""

from __future__ import annotations

import posix

from amd_gpu_tracker.records.state import State
from amdgpu_discovery.files import read_file
from amdgpu_discovery.paths import is_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from amdgpu_discovery.host import Host

IDENTITY = ["0", "0", "4294967295"]
DIRECTORY_NAME = "amd-container-toolkit"


def open_state(host: Host, environment: Mapping[str, str]) -> State:
    """Return the tracker's files for this process; a simulated host is served alike to everybody."""
    return State(host, find_user_directory(environment) if host.is_this_machine else "")


def find_user_directory(environment: Mapping[str, str]) -> str:
    """Return the directory for a rootless run's leases, "" where this is none."""
    uid = outer_uid(_read_uid_map(), posix.geteuid())
    if uid is None:
        return ""
    candidates = (environment.get("XDG_RUNTIME_DIR", ""), f"/run/user/{uid}")
    found = next((path for path in candidates if path and is_directory(path)), "")
    return f"{found}/{DIRECTORY_NAME}" if found else ""


def outer_uid(uid_map: str, uid: int) -> int | None:
    """Return who this process is outside its user namespace; None for root outside of any."""
    lines = [line.split() for line in uid_map.splitlines()]
    if lines == [IDENTITY]:
        return uid or None
    for inside, outside, length in lines:
        if int(inside) <= uid < int(inside) + int(length):
            return int(outside) + uid - int(inside)
    return None


def _read_uid_map() -> str:
    try:
        return read_file("/proc/self/uid_map").decode("ascii")
    except OSError:  # a kernel without user namespaces
        return " ".join(IDENTITY)
