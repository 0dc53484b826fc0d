"""Reserve GPUs for a container: all that it requests, or none with the guide's message."""

from __future__ import annotations

import posix

from amd_gpu_tracker.book.identity import require_tracked_gpus, take_stamp
from amd_gpu_tracker.book.lease import TOKEN, Holder, Lease
from amd_gpu_tracker.book.state import RULE_FILE, STARTS, State
from amd_gpu_tracker.claims.claim import Book, Claim, extended_lease, in_pod, new_lease, prune_others, read_own_lease
from amd_gpu_tracker.enabled import may_be_tracking
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.files import is_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from amd_gpu_tracker.book.policy import Policy
    from amd_gpu_tracker.claims.decision import Refused, Situation
    from amd_gpu_tracker.errors import GpusRefused
    from amd_gpu_tracker.leases.lease_scan import LeaseScan
    from amdgpu_discovery.gpu import GpuLocation

# A claim on shared GPUs needs no other leases, but ended ones must not accumulate. Each claim reads up to SWEEP_ALWAYS
# leases. If there are more, one claim in SWEEP_INTERVAL reads SWEEP_BATCH, twice as many as are added meanwhile.
SWEEP_ALWAYS = 2
SWEEP_INTERVAL = 8
SWEEP_BATCH = 16


def reserve(book: Book, claim: Claim) -> bool:
    """Give a claim all its GPUs, or raise GpusRefused and change nothing.

    Return True, also if nothing is tracked. Return False if the container already holds a live lease, that is, if it is
    already running. GpusChanged if the tracked GPUs have changed, NumbersChanged if a number meant another GPU.
    """
    if not claim.wanted or not may_be_tracking(book.state.host):
        return True
    with book.locked():
        stamp, policy = read_current_policy(book)
        if not policy.enabled:
            return True
        handed_on = read_handed_on(book, claim)
        requests = find_requests(claim, handed_on)
        claim = in_pod(book.state, policy, claim)
        policy = require_tracked_gpus(book.state, policy, stamp, claim.wanted, requests=requests)
        return _reserve(book, claim, policy, handed_on)


def preview(book: Book, claim: Claim) -> None:
    """Raise the error of `reserve`, without the lock and without writing; the claim's own lease does not count."""
    state = book.state
    if not claim.wanted or not may_be_tracking(state.host):
        return
    policy = state.read_policy()
    if not policy.enabled:
        return
    # Imported here, because no start needs them.
    from amd_gpu_tracker.book.identity import match_wanted
    from amd_gpu_tracker.claims.decision import decide
    from amd_gpu_tracker.leases.lease_scan import preview_leases
    from amdgpu_discovery.numbering import locate_gpus

    handed_on = read_handed_on(book, claim)
    policy = match_wanted(state, policy, locate_gpus(state.host), claim.wanted, find_requests(claim, handed_on)).policy
    claim = in_pod(state, policy, claim)

    def scan(paths: Iterable[str]) -> LeaseScan:
        return preview_leases(state, book.processes, paths)

    others = find_other_leases(state, claim, handed_on)
    met = decide(read_situation(state, claim, policy, handed_on, paths=others, scan=scan), claim)
    if isinstance(met, ToolkitError):
        raise met


def read_current_policy(book: Book) -> tuple[bytes, Policy]:
    """Return the current policy, and the stamp of its state. The caller holds the lock."""
    state, processes = book.state, book.processes
    stamp = take_stamp(state, processes.boot_id)
    if not stamp and not state.is_rootless and state.has_former_policy():
        from amd_gpu_tracker.claims.adoption import take_over_at_start

        take_over_at_start(state, processes)
    return stamp, state.read_policy()


def withdraw(state: State, holder: Holder) -> None:
    """Remove what this creator itself reserved. Needs no lock: while the creator lives, nothing else changes it."""
    path = state.lease_path(holder.key)
    lease = state.read_lease(path)
    if lease is not None and lease.creator == holder.creator:
        posix.unlink(path)
        if state.records_history:
            from amd_gpu_tracker.book.history import discard

            discard(state.history_directory, path)


def note_privileged(book: Book, claim: Claim) -> None:
    """Record a privileged container without GPUs, so that `status` shows that it can reach all of them.

    If `amd` is the default runtime, these are builds and system services that have nothing to do with GPUs. So no error
    of the tracker may stop them.
    """
    if book.state.is_rootless:  # A rootless container is root only in its user namespace.
        return
    try:
        with book.locked():
            if book.state.read_policy().enabled and read_own_lease(book, claim) is None:
                book.state.write_lease(new_lease(claim, book.processes))
    except ToolkitError:
        return


def read_handed_on(book: Book, claim: Claim) -> Lease | None:
    """Return the reservation whose token the container carries; None if it carries none, or none that is valid."""
    state, processes = book.state, book.processes
    if claim.reservation:
        from amd_gpu_tracker.claims.handover import find_reservation

        return find_reservation(state, claim.reservation, processes)
    entry = next((entry for entry in reversed(claim.environment) if entry.startswith(f"{TOKEN}=")), "")
    if not entry:
        return None
    # Imported here, because few containers are given a reservation.
    from amd_gpu_tracker.claims.handover import find_handed_on

    token = entry.partition("=")[2]
    found = find_handed_on(state, token, processes)
    if found is None and state.is_rootless:
        # Root's service gives users their GPUs.
        from amd_gpu_tracker.claims.handover import find_handed_on_to_user

        return find_handed_on_to_user(state.host, token, processes)
    return found


def find_requests(claim: Claim, handed_on: Lease | None) -> Sequence[str]:
    """Return the words of a claim, whose numbers must still mean the GPUs that they meant before one was lost.

    For GPUs that were handed on, there are none: a job knows its GPUs by their current numbers.
    """
    is_handed_on = handed_on is not None and all(gpu.key in handed_on.gpus for gpu in claim.wanted)
    return () if is_handed_on else claim.requests


def read_situation(
    state: State,
    claim: Claim,
    policy: Policy,
    handed_on: Lease | None,
    *,
    paths: Iterable[str],
    scan: Callable[[Iterable[str]], LeaseScan],
) -> Situation:
    """Return the basis of the decision about a claim; `scan` reads the leases of others, which are in `paths`."""
    from amd_gpu_tracker.claims.decision import Situation

    keys = [gpu.key.encode() for gpu in claim.wanted]
    is_contested = claim.kinds or claim.totals or policy.exclusive_among(claim.wanted)
    return Situation(
        policy=policy,
        others=scan([path for path in paths if is_contested and state.may_name(path, keys)]),
        handed_on=handed_on,
        drained=_read_drained(state, claim) if state.has_drains else None,
        is_rootless=state.is_rootless,
        name_of=_find_name,
    )


def _read_drained(state: State, claim: Claim) -> GpusRefused | None:
    from amd_gpu_tracker.claims.draining import refuse_drained

    return refuse_drained(state.host, claim.wanted)


def _find_name(lease: Lease) -> str:
    # Imported here, because only refusals need names.
    from amd_gpu_tracker.leases.container_names import find_container_name

    return find_container_name(lease)


def _reserve(book: Book, claim: Claim, policy: Policy, handed_on: Lease | None) -> bool:
    state = book.state
    own = read_own_lease(book, claim)
    makers = (claim.holder.creator, *claim.creators)
    # A claim with its own token is not part of another reservation.
    if own is not None and (own.creator not in makers or claim.token_digest):
        return False
    others = find_other_leases(state, claim, handed_on, locked=True)
    swept = _select_to_sweep(others)
    if handed_on or _may_be_refused(state, claim, policy):
        # Imported here, because most claims are for shared GPUs, which are always given.
        from amd_gpu_tracker.claims.decision import decide

        def scan(rivals: Iterable[str]) -> LeaseScan:
            return prune_others(book, dict.fromkeys([*rivals, *swept]))

        situation = read_situation(state, claim, policy, handed_on, paths=others, scan=scan)
        met = decide(situation, claim)
        if isinstance(met, ToolkitError):
            raise recorded(state, claim, met)
        claim = met
        if handed_on is None:
            close_to_users(state, policy, without_users(claim.wanted, situation.others.living))
    elif swept:
        # Imported here, because most claims do not sweep.
        from amd_gpu_tracker.leases.lease_scan import prune_leases

        prune_leases(state, book.processes, swept)
    state.write_lease(extended_lease(own, claim) if own else new_lease(claim, book.processes))
    if own is None:
        state.count(STARTS)
    if state.is_rootless:
        withdraw_if_exclusive(state, claim, own, handed_on)
    return True


def _may_be_refused(state: State, claim: Claim, policy: Policy) -> bool:
    is_contested = claim.kinds or claim.totals or claim.reservation or policy.exclusive_among(claim.wanted)
    return bool(is_contested or policy.require_reservation or state.has_drains)


def without_users(gpus: Sequence[GpuLocation], leases: Sequence[Lease]) -> list[GpuLocation]:
    """Return the GPUs that no lease names."""
    return [gpu for gpu in gpus if not any(gpu.key in each.gpus for each in leases)]


def close_to_users(state: State, policy: Policy, gpus: Sequence[GpuLocation]) -> None:
    """Close exclusive GPUs, before somebody gets them, to users whose jobs ended while the service was stopped.

    FileError; only where the nodes of GPUs are open to their holders alone.
    """
    exclusive = policy.exclusive_among(gpus)
    if exclusive and not state.is_rootless and is_file(state.host.path(RULE_FILE)):
        # Imported here, because few hosts are set up so.
        from amd_gpu_tracker.claims.closed_nodes import remove_users

        remove_users(state.host, exclusive)


def recorded(state: State, claim: Claim, refusal: Refused) -> Refused:
    """Record the refusal of a claim, and return it. Errors in a file are not recorded."""
    from amd_gpu_tracker.errors import GpusRefused

    if isinstance(refusal, GpusRefused) and not claim.is_waiting:
        from amd_gpu_tracker.book.refusal_log import record_refusal

        record_refusal(state, container_id=claim.holder.container_id, ways=claim.ways, message=refusal.unnamed)
    return refusal


def withdraw_if_exclusive(state: State, claim: Claim, own: Lease | None, handed_on: Lease | None = None) -> None:
    """Withdraw a rootless claim if root, who has another lock, made one of its GPUs exclusive meanwhile."""
    from amd_gpu_tracker.claims.decision import refuse_exclusive

    is_kept = False
    try:
        refusal = refuse_exclusive(state.read_policy().exclusive_among(claim.wanted), handed_on)
        is_kept = refusal is None
    finally:
        if own and not is_kept:
            state.write_lease(own)
        elif not is_kept:
            posix.unlink(state.lease_path(claim.holder.key))
    if refusal:
        raise recorded(state, claim, refusal)


def find_other_leases(state: State, claim: Claim, handed_on: Lease | None = None, *, locked: bool = False) -> list[str]:
    """Return the paths of other leases. The lease that hands GPUs on to this claim is no rival."""
    passed_over = (state.lease_path(claim.holder.key), state.lease_path(handed_on.key) if handed_on else "")
    return [path for path in state.lease_paths(locked=locked) if path not in passed_over]


def _select_to_sweep(paths: list[str]) -> list[str]:
    """Return the leases that a claim checks to clean up; if there are many, different ones each time."""
    if len(paths) <= SWEEP_ALWAYS:
        return paths
    turn, is_not_mine = divmod(posix.getpid(), SWEEP_INTERVAL)
    if is_not_mine:
        return []
    start = turn % len(paths)
    return (paths[start:] + paths[:start])[:SWEEP_BATCH]
