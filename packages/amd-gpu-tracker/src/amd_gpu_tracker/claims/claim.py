"""What a container claims before anything is decided, the lease that it has, the one that it gets, and a refusal."""

from __future__ import annotations

import posix
import time

from amd_gpu_tracker.errors import GpusRefused
from amd_gpu_tracker.records.lease import BY_API, Lease, boot_offset
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from amd_gpu_tracker.life.lease_scan import LeaseScan
    from amd_gpu_tracker.life.processes import Processes
    from amd_gpu_tracker.records.lease import Holder, ProcessId
    from amd_gpu_tracker.records.policy import Policy
    from amd_gpu_tracker.records.state import State
    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.health.limits import HealthLimits


# Of a host on which containers need a reservation.
RESERVED_ONLY = "containers get reserved GPUs only on this host"
HOW_TO_RESERVE = "start it with 'amd-ctk run --gpus=1 -- docker run ...'"


class Claim(Value):
    """What is asked for: the GPUs that are `wanted`, for `holder`, by these `ways`.

    `creators` are processes that may extend the holder's living lease: those that are making this container now.
    """

    holder: Holder
    wanted: Sequence[GpuLocation]
    ways: tuple[str, ...]
    # In which words it asks: a number counts only while no GPU before it is lost.
    asked: Sequence[str] = ()
    creators: Collection[ProcessId] = ()
    # By which generic resources Docker Swarm promised this, and how many MiB of a GPU where not whole ones.
    kinds: tuple[str, ...] = ()
    vram_mb: int = 0
    # It can reach every GPU, whatever it asks for.
    is_privileged: bool = False
    # What the container may have a token in, the digest of the token that hands this on, and what was handed on: the
    # name of the reservation and the digest of its token.
    environment: Sequence[str] = ()
    token_digest: str = ""
    reservation: str = ""
    reservation_digest: str = ""
    # Whose it is, when it ends by itself, and when it is ended; as in the lease.
    person: int | None = None
    until: float = 0.0
    limit: float = 0.0
    # By which limits a choice judges the health of GPUs; None for the driver's.
    limits: HealthLimits | None = None
    # It is tried again and again, and that is nothing to write down.
    is_waiting: bool = False


def read_own_lease(state: State, claim: Claim, processes: Processes) -> Lease | None:
    """Return the living lease of the container that claims, None where it has none or one that is left over."""
    lease = state.read_lease(state.lease_path((claim.holder.root, claim.holder.container_id)))
    # What was kept for this container is given to it anew.
    if lease is None or lease.is_kept:
        return None
    # Ordinary starts find nothing to judge and do not wait for this.
    from amd_gpu_tracker.life.liveness import judge

    verdict = judge(lease, processes)
    is_over = not verdict.is_alive or (not verdict.is_proved and _is_left_over(lease, claim))
    return None if is_over else lease


def prune_others(state: State, processes: Processes, paths: Iterable[str]) -> LeaseScan:
    """Return what other leases say, as `prune_leases`, without what is kept for the service that claims."""
    from amd_gpu_tracker.life.lease_scan import prune_leases

    scan = prune_leases(state, processes, paths)
    if not any(lease.unit for lease in scan.living):
        return scan
    from amd_gpu_tracker.life.restarts import take_up

    return scan.replace(living=take_up(state, scan.living))


def _is_left_over(lease: Lease, claim: Claim) -> bool:
    """Return whether a lease that cannot be judged is left over from an earlier run of the container that claims.

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
        gpus=tuple([gpu.key for gpu in claim.wanted]),
        ways=claim.ways,
        since=time.time(),
        boot_offset=boot_offset(),
        boot_id=processes.boot_id,
        namespace=processes.namespace,
        kinds=claim.kinds,
        vram_mb=claim.vram_mb,
        is_privileged=claim.is_privileged,
        token_digest=claim.token_digest,
        reservation=claim.reservation,
        reservation_digest=claim.reservation_digest,
        person=claim.person,
        until=claim.until,
        limit=claim.limit,
    )


def extended_lease(own: Lease, claim: Claim) -> Lease:
    """Return the lease of a container that claims more than it has already."""
    more = [gpu.key for gpu in claim.wanted if gpu.key not in own.gpus]
    return own.replace(
        gpus=(*own.gpus, *more),
        ways=(*own.ways, *(way for way in claim.ways if way not in own.ways)),
        init=claim.holder.init or own.init,
    )


def refused(state: State, claim: Claim, template: str, *, hint: str = "", people: tuple[int, ...] = ()) -> GpusRefused:
    """Return the error for a claim, which is on record then."""
    error = GpusRefused(template, hint=hint, people=people)
    if not claim.is_waiting:
        from amd_gpu_tracker.records.refusals import record_refusal

        record_refusal(
            state,
            container_id=claim.holder.container_id,
            ways=claim.ways,
            message=error.message,
            template=template,
            people=people,
        )
    return error


def refuse_exclusive(
    state: State, claim: Claim, exclusive: Sequence[GpuLocation], handed_on: Lease | None = None
) -> None:
    """Raise GpusRefused where a rootless claim is for GPUs that are exclusive, and that were not `handed_on` to it."""
    exclusive = [gpu for gpu in exclusive if handed_on is None or gpu.key not in handed_on.gpus]
    if exclusive:
        from amd_gpu_tracker.claims.conflicts import LET_USERS, rootless_refusal

        hint = LET_USERS if BY_API in claim.ways else ""
        raise refused(state, claim, rootless_refusal([gpu.number for gpu in exclusive]), hint=hint)


def refuse_unreserved(state: State, claim: Claim, policy: Policy, handed_on: Lease | None = None) -> None:
    """Raise GpusRefused where containers need a reservation, and not all GPUs of a claim were handed on to it."""
    if not policy.require_reservation or BY_API in claim.ways:
        return
    if not claim.wanted or not all(handed_on and gpu.key in handed_on.gpus for gpu in claim.wanted):
        raise refused(state, claim, RESERVED_ONLY, hint=HOW_TO_RESERVE)


def look_again(state: State, claim: Claim, own: Lease | None, handed_on: Lease | None = None) -> None:
    """Withdraw a rootless claim if root, who has another lock, made one of its GPUs exclusive meanwhile."""
    try:
        refuse_exclusive(state, claim, state.read_policy().exclusive_among(claim.wanted), handed_on)
    except BaseException:
        if own:
            state.write_lease(own)
        else:
            posix.unlink(state.lease_path((claim.holder.root, claim.holder.container_id)))
        raise
