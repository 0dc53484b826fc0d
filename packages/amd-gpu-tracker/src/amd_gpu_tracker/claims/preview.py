"""What the tracker would answer to a container that started now: read only, without the lock, and nothing reserved."""

from __future__ import annotations

from amd_gpu_tracker.claims.choice import choose_now, read_other_leases
from amd_gpu_tracker.claims.claim import HOW_TO_RESERVE, RESERVED_ONLY
from amd_gpu_tracker.claims.conflicts import called, people_of, refusal, require_readable
from amd_gpu_tracker.claims.container import require_no_devices
from amd_gpu_tracker.claims.container_choice import require_nothing_given
from amd_gpu_tracker.claims.draining import why_drained
from amd_gpu_tracker.claims.hook_entries import release_hook
from amd_gpu_tracker.claims.vram import choose_gpu, free_vram, require_enabled
from amd_gpu_tracker.errors import GpusRefused
from amd_gpu_tracker.life.container_names import find_container_name
from amd_gpu_tracker.life.lease_scan import scan_leases
from amd_gpu_tracker.life.processes import Processes
from amd_gpu_tracker.life.status import read_status
from amd_gpu_tracker.records.lease import TOKEN
from amd_gpu_tracker.records.matching import match_gpus
from amd_gpu_tracker.records.numbers import refuse_old_numbers
from amd_gpu_tracker.records.policy import EXCLUSIVE
from amd_gpu_tracker.records.state import State, open_state
from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.gpu import MEBIBYTE
from amdgpu_discovery.host import read_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from amd_gpu_tracker.life.status import ContainerUse, GpuUse
    from amdgpu_discovery.choices.grammar import Choice
    from amdgpu_discovery.gpu import Gpu, GpuLocation
    from amdgpu_discovery.health.limits import HealthLimits
    from amdgpu_discovery.host import Host


def preview_memory(spec: dict[str, Any], host: Host, asked: str, mib: int) -> Gpu:
    """Return the GPU of which a container would get memory, `asked` for in these words; RequestError, GpusRefused."""
    gpus = find_gpus(host)
    require_no_devices(spec, gpus, asked)
    state = State(host)
    policy = state.read_policy()
    require_enabled(policy, asked)
    policy = match_gpus(host, policy, gpus).policy
    leases = scan_leases(state, Processes(), state.lease_paths())
    require_readable(leases.unreadable)
    sizes = {gpu.number: (gpu.vram_bytes or 0) // MEBIBYTE for gpu in gpus}
    chosen = choose_gpu(gpus, free_vram(gpus, sizes, leases, policy), sizes, asked=asked, mib=mib)
    return next(gpu for gpu in gpus if gpu.number == chosen.number)


def preview_choice(
    spec: dict[str, Any],
    host: Host,
    choice: Choice,
    candidates: Sequence[Gpu],
    located: Sequence[GpuLocation],
    *,
    claims_all: bool,
    limits: HealthLimits | None = None,
) -> list[GpuLocation]:
    """Return the GPUs that would be chosen among candidates; RequestError, GpusRefused, TrackerNeeded."""
    require_nothing_given(choice, spec, located, claims_all=claims_all)
    state = open_state(host, read_environment())
    processes = Processes()
    others = read_other_leases(state, processes)
    chosen = choose_now(state, choice, candidates, others, processes=processes, limits=limits)
    numbers = {gpu.number for gpu in chosen}
    return [gpu for gpu in located if gpu.number in numbers]


def preview_refusal(
    host: Host, wanted: Sequence[GpuLocation], container_id: str, *, asked: Sequence[str] = ()
) -> ToolkitError | None:
    """Return why a container that `asked` for these GPUs would be refused, None where it would not."""
    try:
        uses = {use.number: use for use in read_status(State(host), Processes()).gpus}
        if uses:
            refuse_old_numbers(host, asked)
        why, hint = why_drained(host, wanted) if uses else ("", "")
        if why:
            return GpusRefused(why, hint=hint)
    except ToolkitError as error:
        return error
    taken = [gpu.number for gpu in wanted if _is_taken(uses.get(gpu.number), container_id)]
    if not taken:
        return None
    free = [gpu.number for gpu in wanted if gpu.number not in taken]
    people = people_of(container for number in taken for container in uses[number].containers)
    return GpusRefused(refusal(container_id or "(this one)", free, _holders(uses, taken)), people=people)


def preview_unreserved(host: Host, spec: dict[str, Any]) -> GpusRefused | None:
    """Return why a container without a reservation would be refused, None where it would not."""
    environment = (spec.get("process") or {}).get("env") or ()
    if not State(host).read_policy().require_reservation or any(e.startswith(f"{TOKEN}=") for e in environment):
        return None
    return GpusRefused(RESERVED_ONLY, hint=HOW_TO_RESERVE)


def preview_poststop(host: Host) -> list[dict[str, Any]]:
    """Return the hooks that a container with a reservation would have."""
    state = open_state(host, read_environment())
    return [release_hook(host, state.run_directory if state.is_rootless else "")]


def _is_taken(use: GpuUse | None, container_id: str) -> bool:
    if use is None or use.accessibility != EXCLUSIVE:
        return False
    return any(container.container_id != container_id for container in use.containers)


def _holders(uses: dict[int, GpuUse], taken: Sequence[int]) -> list[tuple[str, list[int]]]:
    numbers_by_container: dict[str, list[int]] = {}
    for number in taken:
        for container in uses[number].containers:
            numbers_by_container.setdefault(_title(container), []).append(number)
    return list(numbers_by_container.items())


def _title(container: ContainerUse) -> str:
    """Return what a holder is called, with a container's name where its engine keeps one."""
    return called(container.ways, container.container_id, find_container_name(container), container.person)
