"""The pod of a container, by the IPC namespace that its engine lets it join: the kernel's number, and nothing else.

Labels and annotations may come from an image. What a user's own engine writes is no pod: it has no exclusive GPUs.
"""

from __future__ import annotations

import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_gpu_tracker.claims.claim import Claim
    from amd_gpu_tracker.records.state import State

# That of this process, which is the host's: a container that joins it is in no pod.
OWN = "/proc/self/ns/ipc"


def with_pod(state: State, claim: Claim) -> Claim:
    """Return a claim with the pod of its container, which has none where it joins no other's namespace."""
    return claim if state.is_rootless else claim.replace(pod=_find_pod(claim.ipc))


def _find_pod(path: str) -> str:
    try:
        own, found = posix.stat(OWN), posix.stat(path)
    except OSError:
        return ""
    # Numbers of namespaces are those of one file system of the kernel. One is used again when nothing is left in it:
    # of two living containers that joined the same number, both are in it.
    is_other = found.st_dev == own.st_dev and found.st_ino != own.st_ino
    return f"ipc:{found.st_ino}" if is_other else ""
