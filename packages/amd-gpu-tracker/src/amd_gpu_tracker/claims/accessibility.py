"""Make GPUs exclusive or shared. GPUs of a rootless container, or of several containers, stay shared."""

from __future__ import annotations

from functools import partial

from amd_gpu_tracker.book.matching import match_gpus
from amd_gpu_tracker.book.numbers import require_same_numbers
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.claims.claim import Book
from amd_gpu_tracker.errors import StateError
from amd_gpu_tracker.leases.lease_scan import LeaseScan, preview_leases, prune_leases
from amd_gpu_tracker.leases.user_leases import UserLeases, read_user_leases
from amdgpu_discovery.choices.rules import NO_RULES, ChoiceRules
from amdgpu_discovery.choices.selection import Resolution, asks_for_nothing, resolve
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from amd_gpu_tracker.book.policy import Policy
    from amd_gpu_tracker.claims.gpu_health import Verdict
    from amdgpu_discovery.choices.grammar import Choice
    from amdgpu_discovery.gpu import Gpu, GpuLocation


class AccessibilityChange(Value):
    """The result of a request to make GPUs exclusive or shared.

    Attributes:
        tracked: False if the tracker is disabled; then nothing was done.
        changed: Numbers of the GPUs that are now as requested.
        already: Those of them that were so before.
        in_use: Numbers of GPUs that cannot be exclusive, because several containers use them.
        rootless: Numbers of GPUs that cannot be exclusive, because a rootless container uses them.
        broken_ranges: Items of the request that look like ranges but are not.
        unknown: Other items of the request that name no GPU; the whole request if it asks for none, such as "".
    """

    tracked: bool
    changed: tuple[int, ...] = ()
    already: tuple[int, ...] = ()
    in_use: tuple[int, ...] = ()
    rootless: tuple[int, ...] = ()
    broken_ranges: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Return whether the whole request was carried out."""
        return self.tracked and not (self.in_use or self.rootless or self.broken_ranges or self.unknown)


class _Request(Value):
    """A request, and what is read before the lock is taken: a user or a driver must not delay others."""

    text: str
    exclusive: bool
    rules: ChoiceRules
    choice: Choice | None
    users: UserLeases
    verdicts: Mapping[int, Verdict]


def change_accessibility(
    book: Book, request: str, *, exclusive: bool, rules: ChoiceRules = NO_RULES
) -> AccessibilityChange:
    """Make the GPUs that a request names exclusive or shared. Errors as `Tracker.set_accessibility`."""
    state = book.state
    parsed = _read_request(book, request, exclusive=exclusive, rules=rules)
    with book.locked_by_root():
        policy = state.read_policy()
        if not policy.enabled:
            return AccessibilityChange(tracked=False)
        prune = partial(prune_leases, state, book.processes, state.lease_paths(locked=True))
        policy, gpus, change = _plan(book, parsed, policy, prune)
        state.write_policy(policy.with_accessibility([gpu.key for gpu in gpus], exclusive=exclusive))
    if not exclusive:
        return change
    taken = _share_what_users_took(book, [gpu for gpu in gpus if gpu.number not in change.already])
    return change.replace(
        changed=_numbers([gpu for gpu in gpus if gpu not in taken]),
        rootless=tuple(sorted((*change.rootless, *_numbers(taken)))),
    )


def preview_accessibility(
    book: Book, request: str, *, exclusive: bool, rules: ChoiceRules = NO_RULES
) -> AccessibilityChange:
    """Return what `change_accessibility` would do now for root. Takes no lock and writes nothing."""
    # A user's own leases are elsewhere, and do not include root's containers.
    book = Book(State(book.state.host), book.processes)
    state = book.state
    parsed = _read_request(book, request, exclusive=exclusive, rules=rules)
    policy = state.read_policy()
    if not policy.enabled:
        return AccessibilityChange(tracked=False)
    return _plan(book, parsed, policy, partial(preview_leases, state, book.processes, state.lease_paths()))[-1]


def _read_request(book: Book, request: str, *, exclusive: bool, rules: ChoiceRules) -> _Request:
    # Imported here, because every command of the tracker loads this module.
    from amdgpu_discovery.choices.grammar import parse_choice

    choice = parse_choice(request)
    host = book.state.host
    is_chosen = choice is not None and choice.needs_tracker
    users = read_user_leases(book.state, book.processes) if exclusive or is_chosen else UserLeases()
    verdicts: Mapping[int, Verdict] = {}
    if is_chosen:
        from amd_gpu_tracker.claims.gpu_health import read_verdicts
        from amdgpu_discovery.discover import find_gpus

        verdicts = read_verdicts(host, find_gpus(host), rules.limits)
    return _Request(text=request, exclusive=exclusive, rules=rules, choice=choice, users=users, verdicts=verdicts)


def _plan(
    book: Book, parsed: _Request, policy: Policy, scan_now: Callable[[], LeaseScan]
) -> tuple[Policy, Sequence[GpuLocation], AccessibilityChange]:
    """Return the policy for the current GPUs, the GPUs that change, and the result to report."""
    gpus = locate_gpus(book.state.host)
    match = match_gpus(book.state.host, policy, gpus)
    require_same_numbers(match, gpus, parsed.rules.expand_request(parsed.text, parsed.choice))
    fitting = _find_fitting(book.state, parsed.choice, parsed.rules) if parsed.choice else ()
    resolution = Resolution(gpus=tuple(fitting)) if parsed.choice else resolve(gpus, parsed.text)
    # Scan only now, so that an invalid request removes no lease.
    scan = scan_now()
    if parsed.choice and parsed.choice.needs_tracker:
        chosen = _choose(book.state, parsed.choice, fitting, parsed, policy=match.policy, scan=scan)
        resolution = Resolution(gpus=chosen)
    # Jobs with parts of an exclusive GPU are several, too.
    shared = [gpu for gpu in resolution.gpus if gpu.key not in match.policy.exclusive_keys]
    in_use = [gpu for gpu in shared if parsed.exclusive and scan.count_users(gpu.key) > 1]
    free = [gpu for gpu in resolution.gpus if gpu not in in_use]
    changed = parsed.users.without_used(free) if parsed.exclusive else free
    unknown = tuple(item for problem in resolution.unknown for item in problem.items)
    change = AccessibilityChange(
        tracked=True,
        changed=_numbers(changed),
        already=_numbers([gpu for gpu in changed if (gpu.key in match.policy.exclusive_keys) is parsed.exclusive]),
        in_use=_numbers(in_use),
        rootless=_numbers([gpu for gpu in free if gpu not in changed]),
        broken_ranges=tuple(problem.item for problem in resolution.broken_ranges),
        unknown=(parsed.text,) if asks_for_nothing(parsed.text) else unknown,
    )
    return match.policy, changed, change


def _find_fitting(state: State, choice: Choice, rules: ChoiceRules) -> Sequence[Gpu]:
    # Imported here, because most requests name GPUs.
    from amdgpu_discovery.choices.candidates import find_candidates
    from amdgpu_discovery.discover import find_gpus

    return find_candidates(choice, find_gpus(state.host), rules)


def _choose(
    state: State, choice: Choice, fitting: Sequence[Gpu], parsed: _Request, *, policy: Policy, scan: LeaseScan
) -> tuple[GpuLocation, ...]:
    """Return the GPUs of a choice. The caller holds the lock, so they stay free until it is done."""
    from amd_gpu_tracker.claims.choice import OtherLeases, decide_choice

    others = OtherLeases(of_users=parsed.users.proved)
    chosen = decide_choice(state, choice, fitting, policy, scan, others=others, verdicts=parsed.verdicts)
    if isinstance(chosen, ToolkitError):
        raise chosen
    return tuple(chosen)


def _share_what_users_took(book: Book, gpus: list[GpuLocation]) -> list[GpuLocation]:
    """Share GPUs again that a rootless container took while they became exclusive; return these GPUs.

    Users have their own locks. Their containers write a lease and then read the policy, and root reads the leases after
    it has written the policy. So at least one of the two sees the other.
    """
    users = read_user_leases(book.state, book.processes)
    try:
        free = users.without_used(gpus)
    except StateError:
        _share(book, gpus)
        raise
    taken = [gpu for gpu in gpus if gpu not in free]
    _share(book, taken)
    return taken


def _share(book: Book, gpus: list[GpuLocation]) -> None:
    if gpus:
        with book.locked():
            policy = book.state.read_policy()
            book.state.write_policy(policy.with_accessibility([gpu.key for gpu in gpus], exclusive=False))


def _numbers(gpus: Sequence[GpuLocation]) -> tuple[int, ...]:
    return tuple(gpu.number for gpu in gpus)
