"""Memory that Docker Swarm promised: reserved before the bundle is edited, as that is when its GPU is chosen."""

from __future__ import annotations

from amd_container_runtime.claim import PendingClaim, make_holder, require_known_container
from amd_device_spec.oci_annotation import VRAM_LIMIT
from amd_gpu_tracker.claims.claim import Claim
from amd_gpu_tracker.claims.given_gpus import gpus_given, is_privileged
from amd_gpu_tracker.claims.vram import reserve_vram
from amd_gpu_tracker.life.processes import Processes
from amd_gpu_tracker.records.lease import BY_SWARM
from amd_gpu_tracker.records.lock import KernelLock
from amd_gpu_tracker.records.rootless import open_state
from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.host import read_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from amd_container_runtime.arguments import Call
    from amd_container_runtime.bundle import Bundle
    from amd_device_spec.grant import Grant
    from amd_device_spec.request import VramRequest
    from amd_gpu_tracker.records.state import State
    from amdgpu_discovery.gpu import Gpu, GpuLocation
    from amdgpu_discovery.host import Host

# As amd-smi counts megabytes.
MEGABYTE = 2**20


class MemoryClaim(PendingClaim):
    """A claim on memory, which is met already, on `gpu`; None where the container of this id is running."""

    __slots__ = ("gpu",)

    def __init__(self, state: State, claim: Claim, processes: Processes, gpu: GpuLocation | None) -> None:
        super().__init__(state, claim, processes)
        self.gpu = gpu
        self._is_reserved = gpu is not None

    def reserve(self) -> bool:
        """Return whether this container may be made; False where the runtime has it already and will say so."""
        if not self._is_reserved:
            require_known_container(self._claim.holder)
        return self._is_reserved


def reserve_memory(
    call: Call, host: Host, bundle: Bundle, granted: Grant, asked: VramRequest
) -> tuple[Grant, MemoryClaim]:
    """Reserve memory of a GPU; return what is granted with that GPU in it, and the claim. GpusRefused."""
    gpus = find_gpus(host)
    _refuse_given_nodes(bundle.spec, gpus, asked)
    processes = Processes()
    state = open_state(host, read_environment())
    claim = Claim(
        holder=make_holder(call, bundle, processes),
        wanted=(),
        ways=(BY_SWARM,),
        kinds=granted.kinds,
        vram_mb=asked.megabytes,
    )
    vram_mb_by_gpu = {gpu.number: (gpu.vram_bytes or 0) // MEGABYTE for gpu in gpus}
    gpu = reserve_vram(state, claim, gpus, vram_mb_by_gpu, processes=processes, lock=KernelLock)
    _drop_limits_of_others(bundle.spec)
    return granted.replace(gpus=(gpu,) if gpu else ()), MemoryClaim(state, claim, processes, gpu)


def _refuse_given_nodes(spec: dict[str, Any], gpus: Sequence[Gpu], asked: VramRequest) -> None:
    if gpus_given(spec, gpus) and not is_privileged(spec):
        raise RequestError(
            f"{asked} is memory of a GPU that is yet to be chosen, and the container was given GPUs as devices",
            hint="leave out one or the other",
        )


def _drop_limits_of_others(spec: dict[str, Any]) -> None:
    """Leave no limit in the environment that an image or a user wrote there: ours is the one that is kept to."""
    environment = spec["process"]["env"]
    environment[:] = [variable for variable in environment if variable.partition("=")[0] != VRAM_LIMIT]
