"""Is anything tracked at all? One short read, and no more, for container starts on hosts where nothing is."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amdgpu_discovery.host import Host

POLICY_DIRECTORY = "/var/lib/amd-container-toolkit"
POLICY_FILE = f"{POLICY_DIRECTORY}/gpu-tracker.json"
# How the file of a disabled tracker begins, as `policy.format_policy` writes it.
DISABLED = b'{"version":1,"enabled":false,'


def may_be_tracking(host: Host) -> bool:
    """Return False where the tracker is certainly disabled; `State.read_policy` knows for certain."""
    try:
        return not host.read(POLICY_FILE).startswith(DISABLED)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
