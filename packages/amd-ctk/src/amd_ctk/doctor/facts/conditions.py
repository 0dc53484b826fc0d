"""Which GPUs are sick, suspect, lost or drained: those of which there is something to say."""

from __future__ import annotations

from amd_ctk.listing import looking_tracker
from amd_gpu_tracker.states.state import FREE, IN_USE, RESERVED
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

# Nothing keeps containers from these but other containers.
USUAL = (FREE, RESERVED, IN_USE)


class GpuCondition(Value):
    """A GPU in a state that keeps containers from it, or may, and why it is in it."""

    number: int
    state: str
    reason: str


def read_conditions(host: Host) -> tuple[GpuCondition, ...]:
    """Return the GPUs that are not as usual; none where that cannot be found out, which other checks say. It forks."""
    try:
        states = looking_tracker(host).states()
    except ToolkitError:
        return ()
    return tuple(
        GpuCondition(number=gpu.tracked_number, state=gpu.state, reason=gpu.reason)
        for gpu in states
        if gpu.state not in USUAL
    )
