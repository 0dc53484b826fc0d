"""Decide whether a claim gets its GPUs, in the same way for a start with the lock and for `amd-ctk explain` without.

Nothing here reads or writes: callers pass what they have read. The texts of refusals are those of the guide.
"""

from __future__ import annotations

from amd_gpu_tracker.book.lease import BY_API, Lease
from amd_gpu_tracker.errors import GpusRefused, Message, StateError
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from amd_gpu_tracker.book.policy import Policy
    from amd_gpu_tracker.claims.claim import Claim
    from amd_gpu_tracker.leases.lease_scan import LeaseScan
    from amdgpu_discovery.gpu import GpuLocation

    # The title of a container or job, and the numbers of the GPUs that it uses.
    Use = tuple[str, Sequence[int]]
    Refused = GpusRefused | StateError

# For a host on which containers need a reservation.
RESERVED_ONLY = "containers get only reserved GPUs on this host"
HOW_TO_RESERVE = "start it with 'amd-ctk run --gpus=free:1 -- docker run ...'"
# Why exclusive GPUs are refused without root, and how users get them: others would not see a user's own lease.
FOR_ROOT_ONLY = "exclusive, which users get only with a reservation"
LET_USERS = "'sudo amd-ctk users allow NAME' lets a user reserve them with 'amd-ctk run'"
HINT = "run 'amd-ctk swarm status' to see which containers use the GPUs"


class Situation(Value):
    """The basis of a decision: the policy, other leases for the GPUs, and what was handed on to the claim.

    `drained` is the refusal of a GPU that is drained or sick. `name_of` returns an engine's name of a container.
    """

    policy: Policy
    others: LeaseScan
    handed_on: Lease | None = None
    drained: GpusRefused | None = None
    is_rootless: bool = False
    name_of: Callable[[Lease], str]


def decide(situation: Situation, claim: Claim) -> Claim | Refused:
    """Return the claim if it is met, with the reservation that was handed on to it; else the refusal."""
    handed_on = situation.handed_on
    if claim.reservation and handed_on is None:
        return GpusRefused(f"the reservation {claim.reservation} has ended")
    exclusive = situation.policy.exclusive_among(claim.wanted)
    met = claim if handed_on is None else with_reservation(claim, handed_on)
    return (
        # What no other GPU and no later moment changes comes first: the user has to start the container otherwise.
        refuse_unreserved(situation.policy, claim, handed_on)
        # Before who has a GPU: it is not given out after that use either. Only its own reservation still gives it.
        or (None if handed_on and _are_handed_on(claim, handed_on) else situation.drained)
        # Before the leases: a user gets no exclusive GPU, whoever has it.
        or (refuse_exclusive(exclusive, handed_on) if situation.is_rootless else None)
        # Before what the readable leases say: one that cannot be read may be for these GPUs, too.
        or _refuse_unreadable(claim, exclusive, situation.others.unreadable)
        # Before exclusive use, which Swarm's task would wait out: two of its resources are one GPU, which stays so.
        or _refuse_promised(claim, situation.others.living)
        # Last, because it ends by itself.
        or _refuse_used(met, exclusive, situation)
        or (_refuse_without_room(claim, situation) if claim.totals else None)
        or met
    )


def with_reservation(claim: Claim, handed_on: Lease) -> Claim:
    """Return the claim of a container or job that was given a reservation."""
    return claim.replace(
        reservation=handed_on.outer_job,
        reservation_digest=handed_on.token_digest,
        person=handed_on.person,
        group=handed_on.group,
        begun=handed_on.job_began,
        # A container may outlive the job that started it, so it gets the job's time limit and is as spare as the job.
        limit=claim.limit if BY_API in claim.ways else handed_on.limit,
        preemptible=handed_on.spare_from or claim.preemptible,
        # What has other GPUs, too, has no limit on these.
        vram_mb=handed_on.vram_mb if _are_handed_on(claim, handed_on) else 0,
    )


def _are_handed_on(claim: Claim, handed_on: Lease) -> bool:
    return all(gpu.key in handed_on.gpus for gpu in claim.wanted)


def refuse_unreserved(policy: Policy, claim: Claim, handed_on: Lease | None = None) -> GpusRefused | None:
    """Return the refusal if containers need a reservation, and not all GPUs of this claim were handed on to it."""
    if not policy.require_reservation or BY_API in claim.ways:
        return None
    if claim.wanted and handed_on and _are_handed_on(claim, handed_on):
        return None
    return GpusRefused(RESERVED_ONLY, hint=HOW_TO_RESERVE)


def refuse_exclusive(exclusive: Sequence[GpuLocation], handed_on: Lease | None = None) -> GpusRefused | None:
    """Return the refusal of a rootless claim for exclusive GPUs that were not `handed_on` to it."""
    numbers = [gpu.number for gpu in exclusive if handed_on is None or gpu.key not in handed_on.gpus]
    return rootless_refusal(numbers) if numbers else None


def find_unreadable(unreadable: Sequence[StateError], gpus: Iterable[GpuLocation] = ()) -> StateError | None:
    """Return the first error in the leases, except errors that are only about other GPUs than these."""
    keys = {gpu.key for gpu in gpus}
    return next((error for error in unreadable if error.gpus is None or keys.intersection(error.gpus)), None)


def find_users(leases: Iterable[Lease], numbers_by_key: Mapping[str, int]) -> list[tuple[Lease, list[int]]]:
    """Return the leases with some of these GPUs, each with their numbers, in the order of the leases."""
    # Leases cannot be keys of a mapping: keys that a later version writes may hold lists.
    found = [(each, [number for key, number in numbers_by_key.items() if key in each.gpus]) for each in leases]
    return [(lease, numbers) for lease, numbers in found if numbers]


def message_about(text: str, leases: Iterable[Lease]) -> Message:
    """Return a message whose text may name the persons of these leases, without root."""
    return Message(text=text, people=tuple(sorted({lease.person for lease in leases if lease.person})))


def refusal(container_id: str, free: Sequence[int], uses: Sequence[Use]) -> str:
    """Return the guide's lines for a container that requested `free` GPUs and those in `uses`.

    A job, for which `container_id` is "", was never given the free GPUs, so nothing says that they are released.
    """
    taken = sorted({number for _, numbers in uses for number in numbers})
    lines = [f"GPUs {_list(taken)} are exclusive and already in use"]
    if free and container_id:
        lines = [
            f"GPUs {_list(free)} allocated",
            *lines,
            f"Released GPUs {_list(free)} used by container {container_id}",
        ]
    return "\n".join([*lines, *(in_use(title, numbers) for title, numbers in uses)])


def in_use(title: str, numbers: Sequence[int]) -> str:
    """Return a sentence about who has some GPUs."""
    if len(numbers) == 1:
        return f"GPU {numbers[0]} is in use by {title}"
    return f"GPUs {_list(numbers)} are in use by {title}"


def rootless_refusal(exclusive: Sequence[int]) -> GpusRefused:
    """Return the refusal of exclusive GPUs without root."""
    return GpusRefused(f"GPUs {_list(exclusive)} are {FOR_ROOT_ONLY}", hint=LET_USERS)


def _refuse_unreadable(
    claim: Claim, exclusive: Sequence[GpuLocation], unreadable: Sequence[StateError]
) -> StateError | None:
    contested = claim.wanted if claim.kinds or claim.totals else exclusive
    return find_unreadable(unreadable, contested) if contested else None


def _refuse_promised(claim: Claim, living: Iterable[Lease]) -> GpusRefused | None:
    """Return the refusal if Swarm's promise cannot be kept.

    Swarm does not know that two of its resources are the same GPU, and may promise it twice.
    """
    for lease in living if claim.kinds else ():
        gpu = next((gpu for gpu in claim.wanted if gpu.key in lease.gpus), None)
        if gpu and lease.kinds and not set(lease.kinds) & set(claim.kinds):
            held = ", ".join(lease.kinds)
            asked = ", ".join(claim.kinds)
            return GpusRefused(
                f"GPU {gpu.number} is reserved as {held} by container {lease.container_id}, not free as {asked}",
                hint=HINT,
            )
    return None


def _refuse_used(claim: Claim, exclusive: Sequence[GpuLocation], situation: Situation) -> GpusRefused | None:
    """Return the refusal if others have some of the exclusive GPUs."""
    living: Sequence[Lease] = situation.others.living if exclusive else ()
    if situation.handed_on:
        living = situation.handed_on.rivals(living)
    if claim.vram_mb and (claim.shares_by_vram or situation.handed_on):
        living = [lease for lease in living if not lease.is_part]
    if claim.pod:
        living = [lease for lease in living if lease.pod != claim.pod]
    users = find_users(living, {gpu.key: gpu.number for gpu in exclusive})
    if not users:
        return None
    # Imported here, because most claims are met.
    from amd_gpu_tracker.book.kinds import kind_of

    taken = {number for _, numbers in users for number in numbers}
    text = refusal(
        "" if BY_API in claim.ways else claim.holder.container_id,
        [number for number in _in_request_order(claim) if number not in taken],
        [(kind_of(lease).title_in_refusal(situation.name_of(lease)), numbers) for lease, numbers in users],
    )
    return GpusRefused(message_about(text, (lease for lease, _ in users)))


def _refuse_without_room(claim: Claim, situation: Situation) -> GpusRefused | None:
    # Few jobs have parts of GPUs.
    from amd_gpu_tracker.claims.parts import refuse_without_room

    return refuse_without_room(claim, situation.others, situation.policy)


def _in_request_order(claim: Claim) -> list[int]:
    """Return the numbers of the wanted GPUs as the guide lists them: in the order of the request."""
    wanted = [gpu.number for gpu in claim.wanted]
    named = [number for number in claim.order if number in wanted]
    return list(dict.fromkeys((*named, *wanted)))


def _list(numbers: Collection[int]) -> str:
    return f"[{' '.join(map(str, numbers))}]"
