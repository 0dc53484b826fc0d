"""The state of GPUs: which ones a choice avoids, which are sick, and which are used unreserved."""

from __future__ import annotations

from amd_gpu_tracker.book.drains import DRAINED, SICK, Drain, by_key
from amd_gpu_tracker.book.lease import since_boot
from amd_gpu_tracker.leases.use import GpuLoad, find_gpu_processes, format_use, read_gpu_uses, sees_all_processes
from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.health.limits import NO_LIMITS, HealthLimits
from amdgpu_discovery.health.reading import Health, read_health
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from amd_gpu_tracker.book.state import State
    from amd_gpu_tracker.claims.choosing import Candidate
    from amd_gpu_tracker.claims.claim import Claim
    from amdgpu_discovery.gpu import Gpu
    from amdgpu_discovery.host import Host


class Verdict(Value):
    """The health of a GPU, and how much of it is used."""

    health: Health
    use: GpuLoad


def read_verdicts(host: Host, gpus: Sequence[Gpu], limits: HealthLimits | None = None) -> dict[int, Verdict]:
    """Return the verdicts of GPUs by number, in bounded time, from sysfs alone; only `name_programs` reads /proc."""
    health = read_health(host, [str(gpu.pci_address) for gpu in gpus], limits=limits or NO_LIMITS)
    uses = read_gpu_uses(host, gpus, health)
    return {
        gpu.number: Verdict(health=health.get(str(gpu.pci_address), Health()), use=uses[gpu.number]) for gpu in gpus
    }


def with_verdicts(
    candidates: Iterable[Candidate], verdicts: Mapping[int, Verdict], drains: Iterable[Drain]
) -> list[Candidate]:
    """Return candidates with the obstacle or doubt that the verdicts and drains give them."""
    drain_by_key = by_key(drains)
    return [_judged(each, verdicts[each.gpu.number], drain_by_key.get(each.gpu.key)) for each in candidates]


def name_programs(host: Host, candidates: Sequence[Candidate], verdicts: Mapping[int, Verdict]) -> list[Candidate]:
    """Return candidates whose doubts name the programs that use them, or leaked memory, for a refusal."""
    used = [each for each in candidates if each.doubt and verdicts[each.gpu.number].use.is_used]
    if not used:
        return list(candidates)
    from amd_gpu_tracker.leases.unheld import find_leaked

    processes = find_gpu_processes(host, [each.gpu for each in used])
    uses = {}
    unheld = {}
    for each in used:
        uses[each.gpu.key] = use = verdicts[each.gpu.number].use
        unheld[each.gpu.key] = use.is_only_memory and not (processes[each.gpu.number] or each.gpu.is_apu)
    leaked = find_leaked(host, unheld, now=since_boot(), sees_all=sees_all_processes(host))

    def named(each: Candidate) -> Candidate:
        has_leaked = each.gpu.key in leaked
        said = format_use(uses[each.gpu.key], processes[each.gpu.number], has_leaked=has_leaked)
        return each.replace(doubt=said, has_leaked=has_leaked)

    return [named(each) if each.gpu.key in uses else each for each in candidates]


def describe_unreserved_use(state: State, claim: Claim) -> list[str]:
    """Return a sentence about each used GPU of a claim that no other reservation names.

    It names no processes: reading all of them takes longer than a start.
    """
    own = state.lease_path((claim.holder.root, claim.holder.container_id))
    others = [path for path in state.lease_paths() if path != own]
    free = {gpu.key for gpu in claim.wanted if not any(state.may_name(path, [gpu.key.encode()]) for path in others)}
    gpus = [gpu for gpu in find_gpus(state.host) if gpu.key in free]
    health = read_health(state.host, [str(gpu.pci_address) for gpu in gpus], with_errors=False)
    uses = read_gpu_uses(state.host, gpus, health)
    return [f"GPU {gpu.number} is {format_use(uses[gpu.number], ())}" for gpu in gpus if uses[gpu.number].is_used]


def _judged(candidate: Candidate, verdict: Verdict, drain: Drain | None) -> Candidate:
    if candidate.obstacle:
        return candidate
    reasons = "; ".join(verdict.health.reasons)
    is_drained = drain is not None and drain.state == DRAINED
    if verdict.health.verdict == SICK and not is_drained:
        return candidate.replace(obstacle=f"sick: {reasons}")
    if drain is not None:
        return candidate.replace(obstacle=f"{drain.state}{f': {drain.reason}' if drain.reason else ''}")
    # A reserved GPU is used by its holder.
    if verdict.use.is_used and not (candidate.users or candidate.shares):
        return candidate.replace(doubt=format_use(verdict.use, ()), is_used_unreserved=True)
    return candidate.replace(doubt=f"suspect: {reasons}") if reasons else candidate
