"""What a request means at this moment. Choosing GPUs and reserving them are one transaction."""

from __future__ import annotations

from itertools import groupby

from amd_gpu_tracker.claims.choosing import IN_USE, Candidate, choose, find_apart, find_blocking_user, why_not
from amd_gpu_tracker.claims.claim import Book, Claim, in_pod, new_lease, prune_others, read_own_lease
from amd_gpu_tracker.claims.decision import FOR_ROOT_ONLY, LET_USERS, find_unreadable, people_of, refuse_unreserved
from amd_gpu_tracker.claims.reservation import find_others, look_again, read_current_policy, recorded
from amd_gpu_tracker.claims.verdicts import Verdict, name_programs, read_verdicts, with_verdicts
from amd_gpu_tracker.errors import GpusRefused, TrackerNeeded
from amd_gpu_tracker.life.container_names import find_container_name
from amd_gpu_tracker.life.lease_scan import LeaseScan, count_once, foresee_leases, scan_leases
from amd_gpu_tracker.life.user_leases import UserLease, read_user_leases
from amd_gpu_tracker.records.drains import read_drains
from amd_gpu_tracker.records.identity import match_wanted, require_tracked_gpus
from amd_gpu_tracker.records.state import State
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.unknown_gpus import format_numbers, shown
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from amd_gpu_tracker.claims.decision import Refused
    from amd_gpu_tracker.life.processes import Processes
    from amd_gpu_tracker.records.lease import Lease
    from amd_gpu_tracker.records.policy import Policy
    from amdgpu_discovery.choices.grammar import Choice
    from amdgpu_discovery.gpu import Gpu

UNREADABLE = "in use by a reservation that cannot be read"


class OtherLeases(Value):
    """Leases that stand in other directories: for a user those of root, for root those of users."""

    of_root: tuple[Lease, ...] = ()
    of_users: tuple[UserLease, ...] = ()


def reserve_choice(book: Book, claim: Claim, choice: Choice, gpus: Sequence[Gpu]) -> list[Gpu] | None:
    """Choose among the `gpus` that fit and reserve what is chosen; None where the container's lease is alive.

    GpusRefused where there are not enough now, TrackerNeeded where nothing is tracked, and nothing is changed.
    GpusChanged as in `reserve`.
    """
    state = book.state
    require_tracking(state.read_policy(), choice)
    # Before the lock is taken: what users wrote, or a driver that hangs, must not make others wait for it.
    others = read_other_leases(state, book.processes)
    verdicts = read_verdicts(state.host, gpus, claim.limits)
    with book.locked():
        stamp, policy = read_current_policy(book)
        require_tracking(policy, choice)
        if refusal := refuse_unreserved(policy, claim):
            raise recorded(state, claim, refusal)
        policy = require_tracked_gpus(state, policy, stamp, gpus, asked=claim.asked)
        if read_own_lease(book, claim) is not None:
            return None
        scan = prune_others(book, find_others(state, claim, locked=True))
        chosen = decide_choice(state, choice, gpus, policy, scan, others=others, verdicts=verdicts)
        if isinstance(chosen, ToolkitError):
            raise recorded(state, claim, chosen)
        met = in_pod(state, policy, claim).replace(wanted=chosen)
        state.write_lease(new_lease(met, book.processes))
        if state.is_rootless:
            look_again(state, met, None)
    return chosen


def preview_choice(book: Book, claim: Claim, choice: Choice, gpus: Sequence[Gpu]) -> list[Gpu]:
    """Return what `reserve_choice` would choose now, or raise what it would raise; nothing is reserved or written."""
    state = book.state
    policy = state.read_policy()
    require_tracking(policy, choice)
    if refusal := refuse_unreserved(policy, claim):
        raise refusal
    policy = match_wanted(state, policy, locate_gpus(state.host), gpus, claim.asked).policy
    others = read_other_leases(state, book.processes)
    verdicts = read_verdicts(state.host, gpus, claim.limits)
    scan = foresee_leases(state, book.processes, find_others(state, claim))
    chosen = decide_choice(state, choice, gpus, policy, scan, others=others, verdicts=verdicts)
    if isinstance(chosen, ToolkitError):
        raise chosen
    return chosen


def decide_choice(
    state: State,
    choice: Choice,
    gpus: Sequence[Gpu],
    policy: Policy,
    scan: LeaseScan,
    *,
    others: OtherLeases,
    verdicts: Mapping[int, Verdict],
) -> list[Gpu] | Refused:
    """Return the GPUs of a choice by what all leases and drains say, or why there are not enough.

    The `others` and `verdicts` were read before the caller took the lock.
    """
    if error := find_unreadable(scan.unreadable):
        return error
    users = find_users(gpus, policy, scan, others, is_rootless=state.is_rootless)
    candidates = with_verdicts(users, verdicts, read_drains(state.host))
    chosen = choose(candidates, choice)
    if chosen is not None:
        return chosen
    candidates = name_programs(state.host, candidates, verdicts)
    return GpusRefused(
        _why_not(state, candidates, choice, scan.living),
        hint=_hint(candidates, choice),
        people=people_of(lease for candidate in candidates for lease in candidate.users),
        obstacle=find_apart(candidates, choice),
    )


def only_for_root(choice: Choice, gpus: Sequence[Gpu], exclusive: Sequence[Gpu]) -> str:
    """Return why a choice among `gpus`, some of them `exclusive`, is never met without root; "" where it can be."""
    if not exclusive or choose([Candidate(gpu=gpu) for gpu in gpus if gpu not in exclusive], choice):
        return ""
    numbers = format_numbers([gpu.number for gpu in exclusive])
    return f"{shown(choice.text)}: {numbers} {'is' if len(exclusive) == 1 else 'are'} {FOR_ROOT_ONLY}"


def require_tracking(policy: Policy, choice: Choice) -> None:
    """Raise TrackerNeeded if it is unknown which GPUs are in use."""
    if not policy.enabled:
        raise TrackerNeeded(choice.word)


def find_users(
    gpus: Sequence[Gpu], policy: Policy, own: LeaseScan, others: OtherLeases, *, is_rootless: bool
) -> list[Candidate]:
    """Return each of some GPUs with the leases that name it.

    Rootless containers cannot have exclusive GPUs, so what users write of these does not count.
    """
    found = []
    for gpu in gpus:
        users = count_once([lease for lease in (*own.living, *others.of_root) if gpu.key in lease.gpus])
        is_exclusive = gpu.key in policy.exclusive_keys
        obstacle = UNREADABLE if own.is_named(gpu.key) else ""
        if is_exclusive and (users or is_rootless):
            obstacle = FOR_ROOT_ONLY if is_rootless else IN_USE
        shares = () if is_exclusive else _find_shares(gpu, others.of_users)
        found.append(Candidate(gpu=gpu, users=tuple(users), shares=shares, obstacle=obstacle))
    return found


def read_other_leases(state: State, processes: Processes) -> OtherLeases:
    """Read the leases of others. The caller holds no lock: what users wrote must not make others wait for it."""
    if not state.is_rootless:
        return OtherLeases(of_users=read_user_leases(state, processes).proved)
    root = State(state.host)
    return OtherLeases(of_root=scan_leases(root, processes, root.lease_paths()).living)


def _find_shares(gpu: Gpu, leases: Sequence[UserLease]) -> tuple[UserLease, ...]:
    """Return the leases of users that name a GPU, each user's counted for itself."""
    named = [each for each in leases if gpu.key in each.lease.gpus]
    by_user = [(uid, [each.lease for each in shares]) for uid, shares in groupby(named, key=lambda each: each.uid)]
    return tuple(UserLease(uid=uid, lease=lease) for uid, own in by_user for lease in count_once(own))


def _hint(candidates: Sequence[Candidate], choice: Choice) -> str:
    if _never(candidates, choice):
        return LET_USERS
    uid = find_blocking_user(candidates, choice)
    command = f"sudo amd-ctk gpu-tracker ignore {uid}"
    return "" if uid is None else f"to leave out the containers of user {uid}, run '{command}'"


def _never(candidates: Sequence[Candidate], choice: Choice) -> str:
    for_root = [each.gpu for each in candidates if each.obstacle == FOR_ROOT_ONLY]
    return only_for_root(choice, [each.gpu for each in candidates], for_root)


def _why_not(state: State, candidates: Sequence[Candidate], choice: Choice, own: Sequence[Lease]) -> str:
    if never := _never(candidates, choice):
        return never

    def title_of(lease: Lease) -> str:
        # Where an engine keeps the name of a user's container is up to that user.
        name = (find_container_name(lease) if lease in own else "") or lease.container_id.rpartition("/")[2]
        return f"{name} of {{{lease.person}}}" if lease.person else name

    return why_not(candidates, choice, title_of, usable=len(locate_gpus(state.host)))
