"""Reserve GPUs under a name for a process that is no container."""

from __future__ import annotations

from amd_gpu_tracker.claims.claim import Claim
from amd_gpu_tracker.claims.reservation import reserve
from amd_gpu_tracker.errors import ContainerRunning, TrackerDisabled
from amd_gpu_tracker.records.lease import BY_API, Holder
from amdgpu_discovery.discover import find_unnumbered_gpus
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.selection import select_gpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amd_gpu_tracker.claims.claim import Lock
    from amd_gpu_tracker.life.processes import Processes
    from amd_gpu_tracker.records.state import State
    from amdgpu_discovery.gpu import GpuLocation


def reserve_by_name(
    state: State,
    name: str,
    request: str,
    *,
    pid: int | None,
    processes: Processes,
    lock: Lock,
    token_digest: str = "",
) -> Sequence[GpuLocation]:
    """Reserve the GPUs of a request for the process `pid`, None for the calling one. Errors as `Tracker.reserve`.

    A container that has the token of this digest is given them.
    """
    wanted = select_gpus(locate_gpus(state.host), request, unnumbered=lambda: find_unnumbered_gpus(state.host))
    creator = processes.myself() if pid is None else processes.find(pid)
    if creator is None:
        raise ContainerRunning(f"process {pid} does not exist, so nothing can be reserved for it")
    holder = Holder(container_id=name, creator=creator)
    claim = Claim(holder=holder, wanted=wanted, ways=(BY_API,), token_digest=token_digest)
    if not reserve(state, claim, processes=processes, lock=lock):
        raise ContainerRunning(f"{name} has GPUs already", hint="give every reservation a name of its own")
    # Asked last: what is enabled or disabled meanwhile is not mistaken for a reservation that holds.
    if wanted and state.read_lease(state.lease_path(("", name))) is None:
        raise TrackerDisabled
    return wanted
