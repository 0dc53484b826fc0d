"""What a container claims before anything is decided."""

from __future__ import annotations

from amd_gpu_tracker.records.lease import gpu_key
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from contextlib import AbstractContextManager

    from amd_gpu_tracker.life.processes import ProcessId
    from amd_gpu_tracker.records.lease import Holder
    from amd_gpu_tracker.records.policy import Policy
    from amdgpu_discovery.gpu import GpuLocation

    # Given the path of the lock file, holds the tracker's lock.
    Lock = Callable[[str], AbstractContextManager[None]]


class Claim(Value):
    """What is asked for: the GPUs that are `wanted`, for `holder`, by these `ways`.

    `creators` are processes that may extend the holder's living lease: those that are making this container now.
    """

    holder: Holder
    wanted: Sequence[GpuLocation]
    ways: tuple[str, ...]
    creators: Collection[ProcessId] = ()
    # By which generic resources Docker Swarm promised this, and how many megabytes of a GPU where not whole ones.
    kinds: tuple[str, ...] = ()
    vram_mb: int = 0
    # It can reach every GPU, whatever it asks for.
    is_privileged: bool = False


def exclusive_gpus(claim: Claim, policy: Policy) -> list[GpuLocation]:
    """Return the wanted GPUs that one container may have for itself."""
    keys = policy.exclusive_keys
    return [gpu for gpu in claim.wanted if gpu_key(gpu) in keys]
