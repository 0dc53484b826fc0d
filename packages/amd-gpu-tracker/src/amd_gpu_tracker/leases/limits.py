"""The limits on GPU memory of containers and jobs that have no process on a GPU yet, by the process of their lease."""

from __future__ import annotations

from amdgpu_discovery.usage.memory_limits import NO_LIMIT, MemoryLimits, has_controller

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from amd_gpu_tracker.book.lease import ProcessId
    from amd_gpu_tracker.leases.containers import Owner
    from amd_gpu_tracker.leases.processes import Processes
    from amd_gpu_tracker.leases.status import OwnedLease
    from amdgpu_discovery.gpu import Gpu
    from amdgpu_discovery.host import Host
    from amdgpu_discovery.usage.memory_limits import Limit


class LeaseLimits:
    """Finds the limit of a container or job. On a kernel without limits, no process is looked at."""

    def __init__(self, host: Host, leases: Iterable[OwnedLease], processes: Processes) -> None:
        """Find out which of these `processes` leases belong to."""
        self._processes: Mapping[Owner, ProcessId] = {}
        if has_controller(host):
            # Imported here, because most kernels have no limits.
            from amd_gpu_tracker.leases.containers import processes_by_owner
            from amdgpu_discovery.usage.reading import processes_directory

            self._limits = MemoryLimits(host, processes_directory(host))
            self._processes = processes_by_owner(leases, processes)

    def find(self, owner: Owner, gpu: Gpu) -> Limit:
        """Return the limit on memory of a GPU, and what counts towards it, in bytes; None for both without a limit."""
        process = self._processes.get(owner)
        return self._limits.find(process.pid, gpu) if process else NO_LIMIT
