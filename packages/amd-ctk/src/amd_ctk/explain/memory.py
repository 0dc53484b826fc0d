"""Which GPU would lend its memory to a task of Docker Swarm, if it started now."""

from __future__ import annotations

from amd_device_spec.oci import VRAM_VARIABLES
from amd_gpu_tracker.claims.conflicts import require_readable
from amd_gpu_tracker.claims.container import require_no_devices
from amd_gpu_tracker.claims.vram import choose_gpu, free_vram, require_enabled
from amd_gpu_tracker.life.lease_scan import scan_leases
from amd_gpu_tracker.life.processes import Processes
from amd_gpu_tracker.records.identity import require_same_gpus
from amd_gpu_tracker.records.state import State
from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.gpu import MEBIBYTE, Gpu

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from amd_device_spec.grant import Grant
    from amd_device_spec.request import VramRequest
    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.host import Host


def plan_memory(spec: dict[str, Any], host: Host, granted: Grant, asked: VramRequest) -> Grant:
    """Return the grant with the GPU that the tracker would choose now; RequestError, GpusRefused.

    Limits of memory in the environment of `spec` are dropped, as at a start.
    """
    gpus = find_gpus(host)
    require_no_devices(spec, gpus, str(asked))
    gpu = _choose(host, gpus, asked)
    environment = spec["process"]["env"]
    environment[:] = [entry for entry in environment if entry.partition("=")[0] not in VRAM_VARIABLES]
    return granted.replace(gpus=(gpu,))


def memory_of(granted: Grant) -> int:
    """Return how much memory the GPU has of which a part is granted, in MiB; 0 where whole GPUs are."""
    gpus = granted.gpus if granted.vram else ()
    return sum((gpu.vram_bytes or 0) // MEBIBYTE for gpu in gpus if isinstance(gpu, Gpu))


def _choose(host: Host, gpus: Sequence[Gpu], asked: VramRequest) -> GpuLocation:
    state = State(host)
    policy = state.read_policy()
    require_enabled(policy, str(asked))
    require_same_gpus(host, policy, gpus)
    leases = scan_leases(state, Processes(), state.lease_paths())
    require_readable(leases.unreadable)
    sizes = {gpu.number: (gpu.vram_bytes or 0) // MEBIBYTE for gpu in gpus}
    free = free_vram(gpus, sizes, leases, policy)
    return choose_gpu(gpus, free, sizes, asked=str(asked), mib=asked.mib)
