"""What a claim would get if its container started now: as a start decides, without the lock and nothing written."""

from __future__ import annotations

from amd_gpu_tracker.claims.decision import decide
from amd_gpu_tracker.claims.reservation import find_others, find_words, in_pod, read_handed_on, read_situation
from amd_gpu_tracker.enabled import may_be_tracking
from amd_gpu_tracker.life.lease_scan import foresee_leases
from amd_gpu_tracker.records.identity import match_wanted
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.numbering import locate_gpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from amd_gpu_tracker.claims.claim import Book, Claim
    from amd_gpu_tracker.life.lease_scan import LeaseScan


def preview(book: Book, claim: Claim) -> None:
    """Raise what `reserve` would raise; a lease that the container has already is passed over."""
    state = book.state
    if not claim.wanted or not may_be_tracking(state.host):
        return
    policy = state.read_policy()
    if not policy.enabled:
        return
    handed_on = read_handed_on(book, claim)
    policy = match_wanted(state, policy, locate_gpus(state.host), claim.wanted, find_words(claim, handed_on)).policy

    def foresee(paths: Iterable[str]) -> LeaseScan:
        return foresee_leases(state, book.processes, paths)

    claim = in_pod(state, policy, claim)
    others = find_others(state, claim, handed_on)
    met = decide(read_situation(state, claim, policy, handed_on, paths=others, scan=foresee), claim)
    if isinstance(met, ToolkitError):
        raise met
