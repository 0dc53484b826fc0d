"""What the GPU Tracker would say to a container, without a reservation."""

from __future__ import annotations

from amd_gpu_tracker import may_be_tracking
from amd_gpu_tracker.claims.conflicts import called, refusal
from amd_gpu_tracker.errors import GpusRefused
from amd_gpu_tracker.life.container_names import find_container_name
from amd_gpu_tracker.life.processes import Processes
from amd_gpu_tracker.life.status import read_status
from amd_gpu_tracker.records.policy import EXCLUSIVE
from amd_gpu_tracker.records.state import State
from amdgpu_discovery.errors import ToolkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amd_gpu_tracker.life.status import ContainerUse, GpuUse
    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.host import Host


def refusal_of_tracker(host: Host, wanted: Sequence[GpuLocation], container_id: str) -> ToolkitError | None:
    """Return why the tracker would turn a container away that wants these GPUs, None where it would not."""
    if not wanted or not may_be_tracking(host):
        return None
    try:
        uses = {use.number: use for use in read_status(State(host), Processes()).gpus}
    except ToolkitError as error:
        return error
    taken = [gpu.number for gpu in wanted if _is_taken(uses.get(gpu.number), container_id)]
    if not taken:
        return None
    free = [gpu.number for gpu in wanted if gpu.number not in taken]
    return GpusRefused(refusal(container_id or "(this one)", free, _holders(uses, taken)))


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
    return called(container.ways, container.container_id, find_container_name(container))
