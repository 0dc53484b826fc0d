"""Reserve GPUs for a container: all it asks for, or none and the guide's words why."""

from __future__ import annotations

import posix

from amd_gpu_tracker.claims.claim import (
    extended_lease,
    look_again,
    new_lease,
    prune_others,
    read_own_lease,
    refuse_exclusive,
    refuse_unreserved,
    refused,
)
from amd_gpu_tracker.enabled import may_be_tracking
from amd_gpu_tracker.errors import NumbersChanged
from amd_gpu_tracker.records.identity import require_tracked_gpus, take_stamp
from amd_gpu_tracker.records.lease import BY_API, TOKEN
from amdgpu_discovery.errors import ToolkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amd_gpu_tracker.claims.claim import Claim
    from amd_gpu_tracker.life.lease_scan import LeaseScan
    from amd_gpu_tracker.life.processes import Processes
    from amd_gpu_tracker.records.lease import Holder, Lease
    from amd_gpu_tracker.records.lock import Lock
    from amd_gpu_tracker.records.policy import Policy
    from amd_gpu_tracker.records.state import State
    from amdgpu_discovery.gpu import GpuLocation

# A claim of shared GPUs needs no lease of others, but leases that are over must not accumulate. Of few leases it
# reads all; of more, one claim in SWEEP_ONE_CLAIM_IN reads SWEPT_AT_ONCE, twice as many as claims add meanwhile.
FEW = 2
SWEEP_ONE_CLAIM_IN = 8
SWEPT_AT_ONCE = 16


def reserve(state: State, claim: Claim, *, processes: Processes, lock: Lock) -> bool:
    """Give a claim all its GPUs, or raise GpusRefused and change nothing.

    True also where nothing is tracked; False where the container's lease is alive, so that it runs already. GpusChanged
    where the GPUs of the host are others than those that were tracked, NumbersChanged where a number meant another one.
    """
    if not claim.wanted or not may_be_tracking(state.host):
        return True
    state.prepare()
    with lock(state.lock_path):
        stamp, policy = read_current_policy(state, processes)
        if not policy.enabled:
            return True
        try:
            policy = require_tracked_gpus(state, policy, stamp, claim.wanted, asked=claim.asked)
        except NumbersChanged:
            # A job is told its GPUs by the numbers that they have now.
            if not _has_reserved(state, claim, processes):
                raise
            policy = require_tracked_gpus(state, policy, stamp, claim.wanted)
        return _reserve(state, claim, policy, processes)


def read_current_policy(state: State, processes: Processes) -> tuple[bytes, Policy]:
    """Return the policy by which GPUs are given out, and the stamp of its state; the caller holds the lock."""
    stamp = take_stamp(state, processes.boot_id)
    if not stamp and not state.is_rootless and state.has_former_policy():
        from amd_gpu_tracker.claims.adoption import take_over_at_start

        take_over_at_start(state, processes)
    return stamp, state.read_policy()


def withdraw(state: State, holder: Holder) -> None:
    """Remove what this holder's creator itself reserved. Needs no lock: nothing else changes it while that lives."""
    path = state.lease_path((holder.root, holder.container_id))
    lease = state.read_lease(path)
    if lease is not None and lease.creator == holder.creator:
        posix.unlink(path)
        if state.records_history:
            from amd_gpu_tracker.records.history import forget

            forget(state.history_directory, path)


def note_privileged(state: State, claim: Claim, *, processes: Processes, lock: Lock) -> None:
    """Write down a privileged container without a GPU, so that `status` shows that it can reach all of them.

    Where `amd` is the default runtime these are builds and system services that have nothing to do with GPUs, so
    nothing that is wrong with the tracker keeps them back.
    """
    if state.is_rootless:  # it is root in its user namespace only
        return
    try:
        state.prepare()
        with lock(state.lock_path):
            if state.read_policy().enabled and read_own_lease(state, claim, processes) is None:
                state.write_lease(new_lease(claim, processes))
    except ToolkitError:
        return


def _reserve(state: State, claim: Claim, policy: Policy, processes: Processes) -> bool:
    path = state.lease_path((claim.holder.root, claim.holder.container_id))
    own = read_own_lease(state, claim, processes)
    makers = (claim.holder.creator, *claim.creators)
    # What has a token of its own is no part of another reservation.
    if own is not None and (own.creator not in makers or claim.token_digest):
        return False
    handed_on = _find_handed_on(state, claim, processes)
    if claim.reservation and handed_on is None:
        raise refused(state, claim, f"the reservation {claim.reservation} is over")
    if handed_on is not None:
        claim = claim.replace(
            reservation=handed_on.container_id,
            reservation_digest=handed_on.token_digest,
            person=handed_on.person,
            # A container may outlive the job that started it, and its time is that of the job.
            limit=claim.limit if BY_API in claim.ways else handed_on.limit,
        )
    refuse_unreserved(state, claim, policy, handed_on)
    # Who hands GPUs on is no rival.
    passed_over = (path, state.lease_path(handed_on.key)) if handed_on else (path,)
    others = [other for other in state.lease_paths(locked=True) if other not in passed_over]
    swept = _swept(others)
    if state.has_drains and handed_on is None:
        from amd_gpu_tracker.claims.draining import refuse_drained

        refuse_drained(state, claim)
    exclusive = policy.exclusive_among(claim.wanted)
    if claim.kinds or exclusive:
        if state.is_rootless:
            refuse_exclusive(state, claim, exclusive, handed_on)
        _refuse_conflicts(state, claim, exclusive, _scan_rivals(state, claim, processes, others, swept))
    elif swept:
        # Most claims do not wait for this, nor for what finds conflicts.
        from amd_gpu_tracker.life.lease_scan import prune_leases

        prune_leases(state, processes, swept)
    state.write_lease(extended_lease(own, claim) if own else new_lease(claim, processes))
    if state.is_rootless:
        look_again(state, claim, own, handed_on)
    return True


def _has_reserved(state: State, claim: Claim, processes: Processes) -> bool:
    """Return whether all wanted GPUs are those of the reservation that the container has the token of."""
    handed_on = _find_handed_on(state, claim, processes)
    return handed_on is not None and all(gpu.key in handed_on.gpus for gpu in claim.wanted)


def _find_handed_on(state: State, claim: Claim, processes: Processes) -> Lease | None:
    """Return the reservation that the container has the token of, None where it has none that holds."""
    if claim.reservation:
        from amd_gpu_tracker.claims.handover import find_reservation

        return find_reservation(state, claim.reservation, processes)
    entry = next((entry for entry in reversed(claim.environment) if entry.startswith(f"{TOKEN}=")), "")
    if not entry:
        return None
    # Few containers are given a reservation.
    from amd_gpu_tracker.claims.handover import find_handed_on

    token = entry.partition("=")[2]
    found = find_handed_on(state, token, processes)
    if found is None and state.is_rootless:
        # The service of root gives users their GPUs.
        from amd_gpu_tracker.records.state import State

        found = find_handed_on(State(state.host), token, processes)
    return found


def _scan_rivals(
    state: State, claim: Claim, processes: Processes, others: Sequence[str], swept: Sequence[str]
) -> LeaseScan:
    """Return what the `others`, the leases of other containers, say about the wanted GPUs.

    Those that are over are dropped if they name a wanted GPU or are among the `swept`.
    """
    keys = [gpu.key.encode() for gpu in claim.wanted]
    rivals = [path for path in others if state.may_name(path, keys)]
    return prune_others(state, processes, dict.fromkeys([*rivals, *swept]))


def _refuse_conflicts(state: State, claim: Claim, exclusive: Sequence[GpuLocation], scan: LeaseScan) -> None:
    """Raise GpusRefused if another container has a wanted GPU for itself, or by another promise of Swarm's."""
    from amd_gpu_tracker.claims.conflicts import (
        HINT,
        people_of,
        promised_elsewhere,
        refusal,
        require_readable,
        users_of,
    )

    require_readable(scan.unreadable, claim.wanted if claim.kinds else exclusive)
    if message := promised_elsewhere(claim.kinds, claim.wanted, scan.living):
        raise refused(state, claim, message, hint=HINT)
    if users := users_of(exclusive, scan.living):
        uses = [(_title(lease), numbers) for lease, numbers in users]
        taken = {number for _, numbers in uses for number in numbers}
        free = [gpu.number for gpu in claim.wanted if gpu.number not in taken]
        container_id = "" if BY_API in claim.ways else claim.holder.container_id
        people = people_of(lease for lease, _ in users)
        raise refused(state, claim, refusal(container_id, free, uses), people=people)


def _title(lease: Lease) -> str:
    """Return what a holder is called, with a container's name where its engine keeps one."""
    # Only refusals need names.
    from amd_gpu_tracker.claims.conflicts import called
    from amd_gpu_tracker.life.container_names import find_container_name

    title = called(lease.ways, lease.container_id, find_container_name(lease), lease.person)
    return f"{title}, which its engine starts again" if lease.is_kept else title


def _swept(paths: list[str]) -> list[str]:
    """Return the leases that a claim looks at for the sake of order; of many, others each time."""
    if len(paths) <= FEW:
        return paths
    turn, is_not_mine = divmod(posix.getpid(), SWEEP_ONE_CLAIM_IN)
    if is_not_mine:
        return []
    start = turn % len(paths)
    return (paths[start:] + paths[:start])[:SWEPT_AT_ONCE]
