"""Whether the tracker of a host is enabled, and where its decisions are stored.

Every container start with GPUs reads this, and on most hosts it needs no other module of the tracker.
"""

from __future__ import annotations

from amdgpu_discovery.files import is_file, is_link
from amdgpu_discovery.host import Host

POLICY_DIRECTORY = "/var/lib/amd-container-toolkit"
POLICY_FILE = f"{POLICY_DIRECTORY}/gpu-tracker.json"
DRAINS_FILE = f"{POLICY_DIRECTORY}/gpu-tracker-drains.json"
# From AMD's toolkit 1.x. It counts until this tracker has its own policy (`book.migration`).
FORMER_FILE = "/var/log/gpu-tracker.json"
# The whole file of a disabled tracker, as `book.policy` writes it. A file that only begins like this may be damaged.
DISABLED = b'{"version":1,"enabled":false,"gpus":[]}\n'


def may_be_tracking(host: Host) -> bool:
    """Return False if the tracker of a host is certainly disabled; `Tracker.is_enabled` has the exact answer."""
    try:
        return host.read(POLICY_FILE) != DISABLED
    except (FileNotFoundError, NotADirectoryError):
        # A link that leads nowhere does not prove that nothing was decided.
        return is_link(host.path(POLICY_FILE)) or host.stat(FORMER_FILE) is not None
    except OSError:
        return True


def may_be_draining(host: Host) -> bool:
    """Return False if certainly no GPU is drained, or if nothing can be refused because nothing is tracked."""
    return is_file(host.path(DRAINS_FILE)) and may_be_tracking(host)
