"""Reserve memory of one GPU: Docker Swarm says how much of the node's pool, and here a GPU is chosen that has it."""

from __future__ import annotations

from amd_gpu_tracker.claims.claim import new_lease, read_own_lease, refuse_unreserved, refused
from amd_gpu_tracker.claims.conflicts import HINT, require_readable
from amd_gpu_tracker.claims.draining import without_drained
from amd_gpu_tracker.claims.reservation import read_current_policy
from amd_gpu_tracker.errors import GpusRefused
from amd_gpu_tracker.life.lease_scan import prune_leases
from amd_gpu_tracker.records.identity import require_tracked_gpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from amd_gpu_tracker.claims.claim import Claim
    from amd_gpu_tracker.life.lease_scan import LeaseScan
    from amd_gpu_tracker.life.processes import Processes
    from amd_gpu_tracker.records.lock import Lock
    from amd_gpu_tracker.records.policy import Policy
    from amd_gpu_tracker.records.state import State
    from amdgpu_discovery.gpu import GpuLocation


def reserve_vram(
    state: State,
    claim: Claim,
    gpus: Sequence[GpuLocation],
    vram_mb_by_gpu: Mapping[int, int],
    *,
    processes: Processes,
    lock: Lock,
) -> GpuLocation | None:
    """Reserve the memory that a claim asks for on one of the `gpus` of the host, and return that GPU.

    It is the one that has least to spare, so that what is left elsewhere stays in one piece; a GPU that a container
    uses whole has none. None where the container's lease is alive, so that it runs already. GpusRefused where no GPU
    has as much, or where nothing is tracked, and nothing is changed. GpusChanged as in `reserve`.
    """
    require_enabled(state.read_policy(), asked(claim))
    if state.is_rootless:
        raise refused(state, claim, f"{asked(claim)}: only containers of root can reserve memory")
    state.prepare()
    with lock(state.lock_path):
        stamp, policy = read_current_policy(state, processes)
        require_enabled(policy, asked(claim))
        refuse_unreserved(state, claim, policy)
        policy = require_tracked_gpus(state, policy, stamp, gpus)
        path = state.lease_path((claim.holder.root, claim.holder.container_id))
        if read_own_lease(state, claim, processes) is not None:
            return None
        scan = prune_leases(state, processes, [other for other in state.lease_paths() if other != path])
        require_readable(scan.unreadable)
        gpus = without_drained(state.host, gpus) if state.has_drains else gpus
        gpu = _choose(state, claim, gpus, free_vram(gpus, vram_mb_by_gpu, scan, policy), vram_mb_by_gpu)
        state.write_lease(new_lease(claim.replace(wanted=[gpu]), processes))
    return gpu


def free_vram(
    gpus: Sequence[GpuLocation], vram_mb_by_gpu: Mapping[int, int], scan: LeaseScan, policy: Policy
) -> dict[int, int]:
    """Return by number how much memory of each GPU may still be promised, in MiB."""
    free = {}
    for gpu in gpus:
        leases = [lease for lease in scan.living if gpu.key in lease.gpus]
        is_whole = any(not lease.vram_mb for lease in leases) or (leases and gpu.key in policy.exclusive_keys)
        is_whole = is_whole or scan.is_named(gpu.key)
        promised = sum(lease.vram_mb for lease in leases)
        free[gpu.number] = 0 if is_whole else max(0, vram_mb_by_gpu[gpu.number] - promised)
    return free


def choose_gpu(
    gpus: Sequence[GpuLocation],
    free_mb_by_gpu: Mapping[int, int],
    vram_mb_by_gpu: Mapping[int, int],
    *,
    asked: str,
    mib: int,
) -> GpuLocation:
    """Return the GPU that has enough memory and least to spare; GpusRefused, which says what was `asked`, for none."""
    largest = max(vram_mb_by_gpu.values(), default=0)
    if mib > largest:
        raise GpusRefused(
            f"{asked} is more than any GPU of this node has, the largest has {largest} MiB",
            hint="reserve whole GPUs by name instead",
        )
    fitting = [gpu for gpu in gpus if free_mb_by_gpu[gpu.number] >= mib]
    if not fitting:
        raise GpusRefused(f"{asked}: {_no_room(free_mb_by_gpu)}", hint=HINT)
    return min(fitting, key=lambda gpu: (free_mb_by_gpu[gpu.number], gpu.number))


def require_enabled(policy: Policy, asked: str) -> None:
    """Raise GpusRefused where memory is not tracked."""
    if not policy.enabled:
        raise GpusRefused(
            f"{asked}: memory can be reserved only while the GPU Tracker is enabled",
            hint="run 'amd-ctk swarm setup --vram', or 'amd-ctk gpu-tracker enable'",
        )


def asked(claim: Claim) -> str:
    """Return the memory that a claim asks for as it stands in the environment."""
    return f"DOCKER_RESOURCE_{claim.kinds[0]}={claim.vram_mb}"


def _choose(
    state: State,
    claim: Claim,
    gpus: Sequence[GpuLocation],
    free_mb_by_gpu: Mapping[int, int],
    vram_mb_by_gpu: Mapping[int, int],
) -> GpuLocation:
    try:
        return choose_gpu(gpus, free_mb_by_gpu, vram_mb_by_gpu, asked=asked(claim), mib=claim.vram_mb)
    except GpusRefused as error:
        raise refused(state, claim, error.message, hint=error.hint) from None


def _no_room(free_mb_by_gpu: Mapping[int, int]) -> str:
    pool = sum(free_mb_by_gpu.values())
    most, number = max((free, -number) for number, free in free_mb_by_gpu.items())
    where = f": {pool} MiB free on this node, at most {most} MiB on one GPU (GPU {-number})"
    return f"no GPU has that much free memory{where if pool else ''}"
