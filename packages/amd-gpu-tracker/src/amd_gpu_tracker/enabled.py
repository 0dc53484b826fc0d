"""Is anything tracked at all? One short read, which every container start with a GPU makes."""

from __future__ import annotations

import posix

from amdgpu_discovery.paths import FILE_TYPE, SYMBOLIC_LINK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amdgpu_discovery.host import Host

POLICY_DIRECTORY = "/var/lib/amd-container-toolkit"
POLICY_FILE = f"{POLICY_DIRECTORY}/gpu-tracker.json"
# The whole file of a disabled tracker, as `format_policy` writes it. One that only begins so may be damaged.
DISABLED = b'{"version":1,"enabled":false,"gpus":[]}\n'


def may_be_tracking(host: Host) -> bool:
    """Return False where the tracker is certainly disabled; `State.read_policy` knows for certain."""
    try:
        return host.read(POLICY_FILE) != DISABLED
    except (FileNotFoundError, NotADirectoryError):
        return is_link(host.path(POLICY_FILE))
    except OSError:
        return True


def is_link(path: str) -> bool:
    """Return whether a path is a symbolic link; one that leads nowhere is no sign that nothing was decided."""
    try:
        return posix.lstat(path).st_mode & FILE_TYPE == SYMBOLIC_LINK
    except OSError:
        return False
