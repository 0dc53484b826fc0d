"""Whose GPUs are those that a claim wants? What decides that, and the guide's words for it.

Apart from `reservation`, because claims of shared GPUs, which most are, conflict with nobody.
"""

from __future__ import annotations

import posix

from amd_gpu_tracker.claims.claim import exclusive_gpus
from amd_gpu_tracker.errors import GpusRefused
from amd_gpu_tracker.life.lease_scan import mend_leases
from amd_gpu_tracker.records.lease import gpu_key
from amd_gpu_tracker.records.refusals import record_refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from amd_gpu_tracker.claims.claim import Claim
    from amd_gpu_tracker.errors import StateError
    from amd_gpu_tracker.life.lease_scan import Survey
    from amd_gpu_tracker.life.processes import Processes
    from amd_gpu_tracker.records.lease import Lease
    from amd_gpu_tracker.records.policy import Policy
    from amd_gpu_tracker.records.state import State
    from amdgpu_discovery.gpu import GpuLocation

HINT = "'amd-ctk swarm status' shows who has what"


def refuse_conflicts(
    state: State,
    claim: Claim,
    policy: Policy,
    processes: Processes,
    *,
    others: Sequence[str],
    swept: Sequence[str],
) -> None:
    """Raise GpusRefused if another container has a wanted GPU for itself, or by another promise of Swarm's.

    `others` are the files of all leases but the holder's own. Those that are over are dropped if they name a wanted GPU
    or are among the `swept`.
    """
    if state.is_rootless:
        _refuse_exclusive(state, claim, policy)
    keys = [gpu_key(gpu).encode() for gpu in claim.wanted]
    rivals = [path for path in others if state.may_name(path, keys)]
    survey = mend_leases(state, processes, dict.fromkeys([*rivals, *swept]))
    require_readable(survey.unreadable)
    _refuse_promised(state, claim, survey)
    _refuse_taken(state, claim, exclusive_gpus(claim, policy), survey)


def look_again(state: State, claim: Claim, own: Lease | None) -> None:
    """Take a rootless claim back if root, whose lock is another, made one of its GPUs exclusive meanwhile."""
    try:
        _refuse_exclusive(state, claim, state.read_policy())
    except BaseException:
        if own:
            state.write_lease(own)
        else:
            posix.unlink(state.lease_path((claim.holder.root, claim.holder.container_id)))
        raise


def _refuse_exclusive(state: State, claim: Claim, policy: Policy) -> None:
    exclusive = exclusive_gpus(claim, policy)
    if exclusive:
        raise refused(state, claim, rootless_refusal([gpu.number for gpu in exclusive]))


def _refuse_promised(state: State, claim: Claim, survey: Survey) -> None:
    """Raise GpusRefused if Swarm has promised a wanted GPU by another resource, which it does not see is the same."""
    for lease in survey.living if claim.kinds else ():
        gpu = next((gpu for gpu in claim.wanted if gpu_key(gpu) in lease.gpus), None)
        if gpu and lease.kinds and not set(lease.kinds) & set(claim.kinds):
            held, wanted = (", ".join(kinds) for kinds in (lease.kinds, claim.kinds))
            message = f"GPU {gpu.number} is reserved as {held} by container {lease.container_id}, not free as {wanted}"
            raise refused(state, claim, message, hint=HINT)


def _refuse_taken(state: State, claim: Claim, exclusive: Sequence[GpuLocation], survey: Survey) -> None:
    numbers_by_lease = (
        (lease, [gpu.number for gpu in exclusive if gpu_key(gpu) in lease.gpus]) for lease in survey.living
    )
    holders = [(_title(lease), numbers) for lease, numbers in numbers_by_lease if numbers]
    if holders:
        taken = {number for _, numbers in holders for number in numbers}
        free = [gpu.number for gpu in claim.wanted if gpu.number not in taken]
        raise refused(state, claim, refusal(claim.holder.container_id, free, holders))


def _title(lease: Lease) -> str:
    """Return a container's id and, where its engine keeps one, its name."""
    # Only refusals need names.
    from amd_gpu_tracker.show.container_names import find_container_name

    name = find_container_name(lease)
    return f"{lease.container_id} ({name})" if name else lease.container_id


def require_readable(unreadable: Sequence[StateError]) -> None:
    """Raise the first of what is wrong with leases: whoever cannot be read may have any GPU."""
    for error in unreadable:
        raise error


def refusal(container_id: str, free: Sequence[int], holders: Sequence[tuple[str, Sequence[int]]]) -> str:
    """Return the guide's lines for a container that asked for `free` GPUs and taken ones, and which `holders` have."""
    taken = sorted({number for _, numbers in holders for number in numbers})
    lines = [f"GPUs {_list(taken)} are exclusive and already in use"]
    if free:
        lines = [
            f"GPUs {_list(free)} allocated",
            *lines,
            f"Released GPUs {_list(free)} used by container {container_id}",
        ]
    return "\n".join([*lines, *(_in_use(title, numbers) for title, numbers in holders)])


def _in_use(title: str, numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"GPU {numbers[0]} is in use by container {title}"
    return f"GPUs {_list(numbers)} are in use by container {title}"


def rootless_refusal(exclusive: Sequence[int]) -> str:
    """Return the line for a rootless container: what it reserves nobody else would see."""
    return f"GPUs {_list(exclusive)} are exclusive, which only containers of root can reserve"


def refused(state: State, claim: Claim, message: str, *, hint: str = "") -> GpusRefused:
    """Return the error for a claim, which is on record then."""
    record_refusal(state, container_id=claim.holder.container_id, ways=claim.ways, message=message)
    return GpusRefused(message, hint=hint)


def _list(numbers: Collection[int]) -> str:
    return f"[{' '.join(str(number) for number in sorted(numbers))}]"
