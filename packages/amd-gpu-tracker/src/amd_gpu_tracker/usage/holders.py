"""Tell which lease a process has, where the lease names the process or one that started it.

A job that has reserved GPUs is in the cgroup of a login, of a service or of Slurm: no cgroup is named after it.
"""

from __future__ import annotations

from amd_gpu_tracker.life.user_processes import UserProcesses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from amd_gpu_tracker.life.processes import Processes
    from amd_gpu_tracker.life.status import OwnedLease
    from amd_gpu_tracker.records.lease import Lease, ProcessId

    # Id of a container, and the uid of the user whose it is; None for root and for the caller.
    Owner = tuple[str, int | None]

# Shells and launchers between a job and its processes; what is deeper counts by its cgroup.
MOST_GENERATIONS = 64


def find_holders(leases: Iterable[OwnedLease], processes: Processes, pids: Iterable[int]) -> dict[int, Owner]:
    """Return the lease of each of these processes that has one: its own, or that of the nearest process above it.

    Of two `leases` that name the same process, the first counts.
    """
    wanted = list(pids)
    owners = _owners_by_process(leases, processes) if wanted else {}
    return {pid: owner for pid in wanted if (owner := _find_owner(pid, owners, processes)) is not None}


def holding_process(lease: Lease) -> ProcessId | None:
    """Return the process below which all others have the GPUs of a lease, too.

    What makes a container may make others as well, as containerd does; what reserves GPUs for itself is the job.
    """
    return lease.init or (None if lease.bundle else lease.creator)


def _find_owner(pid: int, owners: Mapping[ProcessId, Owner], processes: Processes) -> Owner | None:
    above = processes.ancestors(pid, MOST_GENERATIONS) if owners else []
    return next((owners[process] for process in above if process in owners), None)


def _owners_by_process(leases: Iterable[OwnedLease], processes: Processes) -> dict[ProcessId, Owner]:
    found: dict[ProcessId, Owner] = {}
    for lease, uid in leases:
        process = holding_process(lease)
        if process and lease.namespace == processes.namespace and _is_of(uid, process, processes):
            found.setdefault(process, (lease.container_id, uid))
    return found


def _is_of(uid: int | None, process: ProcessId, processes: Processes) -> bool:
    """Return whether a process is that of the user who wrote so in a lease; another may have proved the lease."""
    return uid is None or UserProcesses(uid, processes).has(process.pid)
