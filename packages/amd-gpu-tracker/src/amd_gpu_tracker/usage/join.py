"""Join what the kernel counts with what the tracker knows."""

from __future__ import annotations

import posix

from amd_gpu_tracker.life.container_names import find_container_names
from amd_gpu_tracker.life.running import find_running_containers
from amd_gpu_tracker.records.rootless import find_user
from amd_gpu_tracker.show.status import ContainerUse
from amd_gpu_tracker.usage.believed import believed, first_of_each_id
from amd_gpu_tracker.usage.containers import ContainerOfProcess, find_container
from amd_gpu_tracker.usage.holders import find_holders
from amd_gpu_tracker.usage.users import GpuUsage, GpuUser, Usage, UserProcess
from amdgpu_discovery.models import model_of
from amdgpu_discovery.usage.busy import find_gpu_busy, find_process_busy
from amdgpu_discovery.usage.reading import read_process_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from amd_gpu_tracker.life.processes import Processes
    from amd_gpu_tracker.records.state import State
    from amd_gpu_tracker.show.status import Status
    from amd_gpu_tracker.usage.holders import Owner
    from amdgpu_discovery.gpu import Gpu
    from amdgpu_discovery.usage.reading import ProcessUse, UsageReading

# Processes that are named one by one.
MOST_CUT_SHORT = 9


def join_usage(
    state: State,
    status: Status,
    reading: UsageReading,
    *,
    before: UsageReading | None,
    processes: Processes,
    proc: str,
) -> Usage:
    """Return who uses what; how busy GPUs were is told where there is a reading `before`.

    `proc` is where the processes are that the reading counts.
    """
    pids = dict.fromkeys(use.pid for use in reading.processes if use.pid)
    holders = find_holders(state, processes, pids) if status.enabled else {}
    join = _Join(reading, status, before=before, proc=proc, holders=holders)
    join.find_names(state, processes)
    return Usage(
        enabled=status.enabled,
        gpus=tuple(join.gpu_usage(position) for position in range(len(reading.gpus))),
        not_shown=reading.refused,
        problems=(*status.problems, *_cut_short(reading.cut_short)),
    )


class _Join:
    """A reading of the kernel, and who is in which container."""

    def __init__(
        self,
        reading: UsageReading,
        status: Status,
        *,
        before: UsageReading | None,
        proc: str,
        holders: Mapping[int, Owner],
    ) -> None:
        self._reading = reading
        self._proc = proc
        self._gpu_busy: Mapping[int, int | None] = find_gpu_busy(before, reading) if before else {}
        self._process_busy = find_process_busy(before, reading) if before else {}
        self._uses = first_of_each_id((use for gpu in status.gpus for use in gpu.containers), status.privileged)
        self._reserved = {
            gpu.number: {
                use.container_id: use for use in gpu.containers if use.user == self._uses[use.container_id].user
            }
            for gpu in status.gpus
        }
        pids = dict.fromkeys(use.pid for use in reading.processes)
        found = {pid: find_container(proc, pid, self._uses) for pid in pids}
        by_cgroup = believed(found, self._uses, me=find_user())
        self._container_by_pid = {pid: _of_holder(holders.get(pid), by_cgroup[pid]) for pid in pids}
        self._names: Mapping[str, str] = {}

    def find_names(self, state: State, processes: Processes) -> None:
        """Find out how engines call the containers; for root, because others may not read it."""
        uses = dict(self._uses)
        # What runtimes of root know is no name for an id that a user has chosen.
        containers = filter(None, self._container_by_pid.values())
        there = {container.container_id for container in containers if container.user is None}
        if there - uses.keys() and posix.geteuid() == 0:
            uses |= {use.container_id: use for use in _running(state, processes) if use.container_id in there}
        self._names = find_container_names(uses.values())

    def gpu_usage(self, position: int) -> GpuUsage:
        """Return one GPU of the reading and who uses it."""
        gpu, totals = self._reading.gpus[position], self._reading.totals[position]
        users = self._users(gpu)
        of_processes = sum(user.vram_bytes for user in users) if gpu.partition_total > 1 else None
        return GpuUsage(
            number=gpu.number,
            uuid=f"0x{gpu.unique_id:X}" if gpu.unique_id else "N/A",
            pci_address=str(gpu.pci_address),
            partition_rank=gpu.partition_rank,
            partition_total=gpu.partition_total,
            model=model_of(gpu),
            is_apu=gpu.is_apu,
            vram_total=totals.vram_total,
            vram_used=totals.vram_used if of_processes is None else of_processes,
            gtt_total=totals.gtt_total,
            gtt_used=totals.gtt_used,
            busy_percent=self._gpu_busy.get(gpu.number),
            users=tuple(sorted(users, key=lambda user: (-user.vram_bytes, user.since or 0, user.container_id))),
        )

    def _users(self, gpu: Gpu) -> list[GpuUser]:
        held: dict[str, list[UserProcess]] = {container_id: [] for container_id in self._reserved.get(gpu.number, ())}
        found: dict[str, ContainerOfProcess] = {}
        for use in self._reading.processes:
            if use.gpu == gpu.number:
                container = self._container_by_pid[use.pid]
                held.setdefault(container.container_id if container else "", []).append(self._process(use))
                found |= {container.container_id: container} if container else {}
        return [self._user(gpu, each, found.get(each), processes) for each, processes in held.items()]

    def _user(
        self, gpu: Gpu, container_id: str, container: ContainerOfProcess | None, processes: Sequence[UserProcess]
    ) -> GpuUser:
        reserved = self._reserved.get(gpu.number, {}).get(container_id)
        owner = self._uses.get(container_id, container)
        return GpuUser(
            container_id=container_id,
            name=self._names.get(container_id, ""),
            engine=container.engine if container else "",
            is_tracked=reserved is not None,
            since=reserved.since if reserved else None,
            processes=tuple(sorted(processes, key=lambda process: (-process.vram_bytes, process.pid))),
            user=owner.user if owner else None,
        )

    def _process(self, use: ProcessUse) -> UserProcess:
        return UserProcess(
            pid=use.pid,
            name=read_process_name(self._proc, use.pid) if use.pid else "",
            vram_bytes=use.vram_bytes,
            gtt_bytes=use.gtt_bytes,
            compute_units=use.compute_units,
            sdma_us=use.sdma_us,
            busy_percent=self._process_busy.get((use.pid, use.gpu)),
        )


def _of_holder(owner: Owner | None, by_cgroup: ContainerOfProcess | None) -> ContainerOfProcess | None:
    """Return the container of the lease that a process has; the cgroup tells what made it, and the container else."""
    if owner is None or (by_cgroup and by_cgroup.container_id == owner[0]):
        return by_cgroup
    return ContainerOfProcess(container_id=owner[0], engine="", user=owner[1])


def _running(state: State, processes: Processes) -> list[ContainerUse]:
    return [
        ContainerUse(container_id=each.container_id, root=each.root, bundle=each.bundle, since=0, ways=())
        for each in find_running_containers(state.host, processes)
    ]


def _cut_short(pids: Sequence[int]) -> list[str]:
    """Return a sentence about each process of which not all was looked at; a user may have many thousands."""
    named = [
        f"process {pid} has more open files or locks than are looked at, so its use may be incomplete"
        for pid in pids[:MOST_CUT_SHORT]
    ]
    more = len(pids) - MOST_CUT_SHORT
    if more <= 0:
        return named
    processes, their = ("process has", "its") if more == 1 else ("processes have", "their")
    return [
        *named,
        f"{more} more {processes} more open files or locks than are looked at, so {their} use may be incomplete",
    ]
