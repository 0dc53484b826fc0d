"""The unreserved GPUs that a choice passes over: those that are used, sick, suspect or drained."""

from __future__ import annotations

from amd_gpu_tracker.records.drains import by_key
from amd_gpu_tracker.states.use import find_gpu_processes, format_use, read_gpu_uses
from amdgpu_discovery.health.limits import NO_LIMITS
from amdgpu_discovery.health.reading import SICK, Health, read_health
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from amd_gpu_tracker.claims.choosing import Candidate
    from amd_gpu_tracker.records.drains import Drain
    from amd_gpu_tracker.states.use import GpuLoad
    from amdgpu_discovery.gpu import Gpu
    from amdgpu_discovery.health.limits import HealthLimits
    from amdgpu_discovery.host import Host


class Verdict(Value):
    """How a GPU is, and how much of it is used."""

    health: Health
    use: GpuLoad


def read_verdicts(host: Host, gpus: Sequence[Gpu], limits: HealthLimits | None = None) -> dict[int, Verdict]:
    """Return by number how GPUs are, in bounded time and from sysfs alone: /proc is walked to name programs only."""
    health = read_health(host, [str(gpu.pci_address) for gpu in gpus], limits=limits or NO_LIMITS)
    uses = read_gpu_uses(host, gpus, health)
    return {
        gpu.number: Verdict(health=health.get(str(gpu.pci_address), Health()), use=uses[gpu.number]) for gpu in gpus
    }


def with_verdicts(
    candidates: Iterable[Candidate], verdicts: Mapping[int, Verdict], drains: Iterable[Drain]
) -> list[Candidate]:
    """Return candidates with what keeps each from being chosen, or lets it come last."""
    drain_by_key = by_key(drains)
    return [_judged(each, verdicts[each.gpu.number], drain_by_key.get(each.gpu.key)) for each in candidates]


def name_programs(host: Host, candidates: Sequence[Candidate], verdicts: Mapping[int, Verdict]) -> list[Candidate]:
    """Return candidates whose doubts name the programs that use them, for a refusal."""
    used = [each for each in candidates if each.doubt and verdicts[each.gpu.number].use.is_used]
    if not used:
        return list(candidates)
    processes = find_gpu_processes(host, [each.gpu for each in used])
    named = {each.gpu.number: format_use(verdicts[each.gpu.number].use, processes[each.gpu.number]) for each in used}
    return [each.replace(doubt=named.get(each.gpu.number, each.doubt)) for each in candidates]


def _judged(candidate: Candidate, verdict: Verdict, drain: Drain | None) -> Candidate:
    if candidate.obstacle:
        return candidate
    reasons = "; ".join(verdict.health.reasons)
    if verdict.health.verdict == SICK:
        return candidate.replace(obstacle=f"sick: {reasons}")
    if drain is not None:
        what = "sick" if drain.is_sick else "drained"
        return candidate.replace(obstacle=f"{what}{f': {drain.reason}' if drain.reason else ''}")
    # The holder of a reserved GPU uses it.
    if verdict.use.is_used and not (candidate.users or candidate.shares):
        return candidate.replace(doubt=format_use(verdict.use, ()), is_used_unreserved=True)
    return candidate.replace(doubt=f"suspect: {reasons}") if reasons else candidate
