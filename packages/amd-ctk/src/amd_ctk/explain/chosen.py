"""Which GPUs would be chosen for a container that says what it needs, if it started now."""

from __future__ import annotations

from amd_gpu_tracker.claims.choice import choose_now, read_other_leases
from amd_gpu_tracker.claims.container_choice import require_nothing_given
from amd_gpu_tracker.life.processes import Processes
from amd_gpu_tracker.records.state import open_state
from amdgpu_discovery.host import read_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from amd_device_spec.grant import Grant
    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.host import Host


def plan_choice(
    spec: dict[str, Any], host: Host, granted: Grant, located: Sequence[GpuLocation], *, claims_all: bool
) -> Grant:
    """Return the grant with the GPUs that the tracker would choose now; RequestError, GpusRefused, TrackerNeeded."""
    if granted.choice is None:
        return granted
    require_nothing_given(granted.choice, spec, located, claims_all=claims_all)
    state = open_state(host, read_environment())
    processes = Processes()
    others = read_other_leases(state, processes)
    chosen = choose_now(state, granted.choice, granted.candidates, others, processes=processes)
    numbers = {gpu.number for gpu in chosen}
    return granted.replace(gpus=tuple(gpu for gpu in located if gpu.number in numbers))
