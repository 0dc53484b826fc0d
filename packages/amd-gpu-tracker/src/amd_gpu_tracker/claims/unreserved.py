"""GPUs that a container was given by name while a program uses them without a reservation: worth a line in the log."""

from __future__ import annotations

from amd_gpu_tracker.states.use import format_use, read_gpu_uses
from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.health.reading import read_health

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_gpu_tracker.claims.claim import Claim
    from amd_gpu_tracker.records.state import State


def say_unreserved_use(state: State, claim: Claim) -> list[str]:
    """Return a sentence about each GPU of a claim that is used and that no other reservation names.

    It names no process: to go through all of them takes longer than a start.
    """
    own = state.lease_path((claim.holder.root, claim.holder.container_id))
    others = [path for path in state.lease_paths() if path != own]
    free = {gpu.key for gpu in claim.wanted if not any(state.may_name(path, [gpu.key.encode()]) for path in others)}
    gpus = [gpu for gpu in find_gpus(state.host) if gpu.key in free]
    health = read_health(state.host, [str(gpu.pci_address) for gpu in gpus], with_errors=False)
    uses = read_gpu_uses(state.host, gpus, health)
    return [f"GPU {gpu.number} is {format_use(uses[gpu.number], ())}" for gpu in gpus if uses[gpu.number].is_used]
