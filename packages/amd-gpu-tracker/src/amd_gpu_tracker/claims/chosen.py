"""Claims on GPUs that are chosen at this moment. Choosing and reserving are one transaction."""

from __future__ import annotations

from amd_gpu_tracker.book.identity import match_wanted, require_tracked_gpus
from amd_gpu_tracker.book.state import STARTS, State
from amd_gpu_tracker.claims.claim import Book, Claim, in_pod, new_lease, prune_others, read_own_lease
from amd_gpu_tracker.claims.decision import refuse_unreserved
from amd_gpu_tracker.claims.reservation import (
    close_to_users,
    find_other_leases,
    read_current_policy,
    recorded,
    withdraw_if_exclusive,
    without_users,
)
from amd_gpu_tracker.leases.lease_scan import LeaseScan, preview_leases
from amdgpu_discovery.choices.oci_spec import gpus_in_spec
from amdgpu_discovery.errors import RequestError, ToolkitError
from amdgpu_discovery.numbering import locate_gpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Protocol

    from amd_gpu_tracker.book.policy import Policy
    from amd_gpu_tracker.claims.decision import Refused
    from amd_gpu_tracker.errors import GpusRefused
    from amdgpu_discovery.choices.oci_spec import Grant
    from amdgpu_discovery.gpu import Gpu, GpuLocation
    from amdgpu_discovery.health.limits import HealthLimits
    from amdgpu_discovery.host import Host

    class Chooser(Protocol):
        """Chooses GPUs for a claim."""

        @property
        def gpus(self) -> Sequence[Gpu]:
            """Return the GPUs among which it chooses."""

        def require_enabled(self, policy: Policy) -> None:
            """Raise an error if it is unknown which GPUs are in use."""

        def prepare(self, book: Book) -> GpusRefused | None:
            """Read what might block, before the lock is taken; return a refusal if the claim can never get a GPU."""

        def decide(self, state: State, policy: Policy, scan: LeaseScan) -> list[Gpu] | Refused:
            """Return the GPUs by all leases and drains, or the reason why there are not enough."""


def find_chooser(
    host: Host,
    spec: dict[str, Any],
    grant: Grant,
    claim: Claim,
    *,
    located: Sequence[GpuLocation],
    limits: HealthLimits | None,
    claims_all: bool,
) -> Chooser:
    """Return the chooser for a container with this `spec`; RequestError if the container has GPUs already."""
    if grant.choice is None:
        from amd_gpu_tracker.claims.vram import MemoryChooser, format_resource
        from amdgpu_discovery.discover import find_gpus

        gpus = find_gpus(host)
        if not claim.is_privileged:
            _require_none_given(spec, gpus, f"{format_resource(claim)} is memory of a GPU that is yet to be chosen")
        return MemoryChooser(claim, gpus)
    from amd_gpu_tracker.claims.choice import GpuChooser

    if claims_all and claim.is_privileged:
        raise RequestError(
            f"{grant.choice.text}: a privileged container claims every GPU of this host",
            hint="ask for all, or start it without --privileged",
        )
    _require_none_given(spec, located, f"{grant.choice.text}: its GPUs are yet to be chosen")
    return GpuChooser(grant.choice, grant.candidates, limits)


def reserve_chosen(book: Book, claim: Claim, chooser: Chooser) -> list[Gpu] | None:
    """Choose GPUs for a claim and reserve them; None if the container's lease is alive, that is, if it already runs.

    GpusRefused if there are not enough now, TrackerNeeded or GpusRefused if nothing is tracked; then nothing changes.
    GpusChanged as in `reserve`.
    """
    state = book.state
    chooser.require_enabled(state.read_policy())
    if refusal := chooser.prepare(book):
        raise recorded(state, claim, refusal)
    with book.locked():
        stamp, policy = read_current_policy(book)
        chooser.require_enabled(policy)
        if refusal := refuse_unreserved(policy, claim):
            raise recorded(state, claim, refusal)
        policy = require_tracked_gpus(state, policy, stamp, chooser.gpus, requests=claim.requests)
        if read_own_lease(book, claim) is not None:
            return None
        scan = prune_others(book, find_other_leases(state, claim, locked=True))
        chosen = chooser.decide(state, policy, scan)
        if isinstance(chosen, ToolkitError):
            raise recorded(state, claim, chosen)
        met = in_pod(state, policy, claim).replace(wanted=chosen)
        close_to_users(state, policy, without_users(chosen, scan.living))
        state.write_lease(new_lease(met, book.processes))
        state.count(STARTS)
        if state.is_rootless:
            withdraw_if_exclusive(state, met, None)
    return chosen


def preview_chosen(book: Book, claim: Claim, chooser: Chooser) -> list[Gpu]:
    """Return the GPUs that `reserve_chosen` would choose now, or raise its error; write nothing."""
    state = book.state
    policy = state.read_policy()
    chooser.require_enabled(policy)
    if refusal := chooser.prepare(book) or refuse_unreserved(policy, claim):
        raise refusal
    policy = match_wanted(state, policy, locate_gpus(state.host), chooser.gpus, claim.requests).policy
    chosen = chooser.decide(state, policy, preview_leases(state, book.processes, find_other_leases(state, claim)))
    if isinstance(chosen, ToolkitError):
        raise chosen
    return chosen


def _require_none_given(spec: dict[str, Any], gpus: Sequence[GpuLocation], what: str) -> None:
    if gpus_in_spec(spec, gpus):
        raise RequestError(f"{what}, and the container was given GPUs as devices", hint="leave out one or the other")
