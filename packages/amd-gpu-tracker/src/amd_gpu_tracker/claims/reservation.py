"""Reserve GPUs for a container: all it asks for, or none and the guide's words why."""

from __future__ import annotations

import posix
import time

from amd_gpu_tracker.claims.claim import exclusive_gpus
from amd_gpu_tracker.enabled import may_be_tracking
from amd_gpu_tracker.life.processes import boot_offset
from amd_gpu_tracker.records.identity import require_tracked_gpus, take_stamp
from amd_gpu_tracker.records.lease import BY_API, Lease, gpu_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_gpu_tracker.claims.claim import Claim, Lock
    from amd_gpu_tracker.life.processes import Processes
    from amd_gpu_tracker.records.lease import Holder
    from amd_gpu_tracker.records.policy import Policy
    from amd_gpu_tracker.records.state import State


# A claim of shared GPUs needs no lease of others, but what is over must not pile up. Of few leases it looks at all; of
# more, one claim in so many looks at so many, which is twice what claims bring, and the rest save the time.
FEW = 2
SWEEP_ONE_CLAIM_IN = 8
SWEPT_AT_ONCE = 16


def reserve(state: State, claim: Claim, *, processes: Processes, lock: Lock) -> bool:
    """Give a claim all its GPUs, or raise GpusRefused and change nothing.

    True also where nothing is tracked; False where the container's lease is alive, so that it runs already. GpusChanged
    where the GPUs of the host are others than those that were tracked.
    """
    if not claim.wanted or not may_be_tracking(state.host):
        return True
    state.prepare()
    with lock(state.lock_path):
        stamp = take_stamp(state, processes)
        policy = state.read_policy()
        if not policy.enabled:
            return True
        require_tracked_gpus(state, policy, stamp, claim.wanted)
        return _reserve(state, claim, policy, processes)


def withdraw(state: State, holder: Holder) -> None:
    """Take back what this holder's creator itself reserved. Needs no lock: while it lives nobody else touches it."""
    path = state.lease_path((holder.root, holder.container_id))
    lease = state.read_lease(path)
    if lease is not None and lease.creator == holder.creator:
        posix.unlink(path)


def _reserve(state: State, claim: Claim, policy: Policy, processes: Processes) -> bool:
    path = state.lease_path((claim.holder.root, claim.holder.container_id))
    own = read_own(state, claim, processes)
    if own is not None and own.creator not in (claim.holder.creator, *claim.creators):
        return False
    others = [other for other in state.lease_paths() if other != path]
    swept = _swept(others)
    if claim.kinds or exclusive_gpus(claim, policy):
        # Claims of shared GPUs do not wait for this.
        from amd_gpu_tracker.claims.conflicts import refuse_conflicts

        refuse_conflicts(state, claim, policy, processes, others=others, swept=swept)
    elif swept:
        from amd_gpu_tracker.life.lease_scan import mend_leases

        mend_leases(state, processes, swept)
    state.write_lease(_extended(own, claim) if own else new_lease(claim, processes))
    if state.is_rootless:
        from amd_gpu_tracker.claims.conflicts import look_again

        look_again(state, claim, own)
    return True


def read_own(state: State, claim: Claim, processes: Processes) -> Lease | None:
    """Return the living lease of the container that claims, None where it has none or one that is left over."""
    lease = state.read_lease(state.lease_path((claim.holder.root, claim.holder.container_id)))
    if lease is None:
        return None
    # Ordinary starts find nothing to judge and do not wait for this.
    from amd_gpu_tracker.life.liveness import judge

    verdict = judge(lease, processes)
    is_over = not verdict.is_alive or (not verdict.is_proved and _is_left_over(lease, claim))
    return None if is_over else lease


def _is_left_over(lease: Lease, claim: Claim) -> bool:
    """Return whether a lease that nobody can judge is one of an earlier life of the container that claims.

    An engine that was started again in another pid namespace starts its containers again under their ids. A runtime
    makes none while it has one of the same id; what is reserved by the API is no container.
    """
    if BY_API in (*lease.ways, *claim.ways):
        return False
    if claim.creators:
        return True
    from amd_gpu_tracker.life.liveness import is_known_to_runtime

    return not is_known_to_runtime(lease.root, lease.container_id)


def new_lease(claim: Claim, processes: Processes) -> Lease:
    """Return the lease of a claim that is met."""
    return Lease(
        **claim.holder.as_dict(),
        gpus=tuple(gpu_key(gpu) for gpu in claim.wanted),
        ways=claim.ways,
        since=time.time(),
        boot_offset=boot_offset(),
        boot_id=processes.boot_id,
        namespace=processes.namespace,
        kinds=claim.kinds,
        vram_mb=claim.vram_mb,
        is_privileged=claim.is_privileged,
    )


def _swept(paths: list[str]) -> list[str]:
    """Return the leases that a claim looks at for the sake of order; of many, others each time."""
    if len(paths) <= FEW:
        return paths
    turn, is_not_mine = divmod(posix.getpid(), SWEEP_ONE_CLAIM_IN)
    if is_not_mine:
        return []
    start = turn % len(paths)
    return (paths[start:] + paths[:start])[:SWEPT_AT_ONCE]


def _extended(own: Lease, claim: Claim) -> Lease:
    more = [gpu_key(gpu) for gpu in claim.wanted if gpu_key(gpu) not in own.gpus]
    return own.replace(
        gpus=(*own.gpus, *more),
        ways=(*own.ways, *(way for way in claim.ways if way not in own.ways)),
        init=claim.holder.init or own.init,
    )
