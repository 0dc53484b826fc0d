"""Joins what the kernel counts with what the tracker knows."""

from __future__ import annotations

import posix

from amd_gpu_tracker.book.rootless import find_user
from amd_gpu_tracker.leases.container_names import find_container_names
from amd_gpu_tracker.leases.containers import (
    ContainerOfProcess,
    find_container,
    find_holders,
    find_process_user,
    trusted_container,
    uses_by_owner,
)
from amd_gpu_tracker.leases.limits import LeaseLimits
from amd_gpu_tracker.leases.running import find_running_containers
from amd_gpu_tracker.watch.usage.users import GpuUsage, GpuUser, Usage, UserProcess, with_few_users
from amdgpu_discovery.tables.models import model_of
from amdgpu_discovery.usage.budget import CLIENT_SECONDS
from amdgpu_discovery.usage.memory_limits import NO_LIMIT
from amdgpu_discovery.usage.owners import read_real_uid
from amdgpu_discovery.usage.people import read_user_names
from amdgpu_discovery.usage.reading import UsageReading, find_gpu_busy, find_process_busy, read_process_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from amd_gpu_tracker.book.state import State
    from amd_gpu_tracker.leases.container_names import Container
    from amd_gpu_tracker.leases.containers import Owner
    from amd_gpu_tracker.leases.processes import Processes
    from amd_gpu_tracker.leases.status import OwnedLease, Status
    from amdgpu_discovery.gpu import Gpu
    from amdgpu_discovery.usage.kfd_processes import ProcessUse
    from amdgpu_discovery.usage.memory_limits import Limit

# How many processes are named one by one.
MOST_CUT_SHORT = 9


class UsageJoin:
    """A reading of the kernel, and the container of each process in it."""

    def __init__(
        self,
        state: State,
        status: Status,
        leases: Iterable[OwnedLease],
        reading: UsageReading,
        *,
        before: UsageReading | None,
        processes: Processes,
        proc: str,
        products: Mapping[str, str],
    ) -> None:
        """Join these; the result shows how busy GPUs were if there is a reading `before`.

        `leases` are those of the status; `proc` is the directory of the processes that the reading counts; `products`
        are the product names by `GpuLocation.key`.
        """
        self._reading = reading
        self._status = status
        self._proc = proc
        self._products = products
        self._gpu_busy: Mapping[int, int | None] = find_gpu_busy(before, reading) if before else {}
        self._process_busy = find_process_busy(before, reading) if before else {}
        self._uses = uses_by_owner((use for gpu in status.gpus for use in gpu.containers), status.privileged)
        self._reserved = {gpu.number: uses_by_owner(gpu.containers) for gpu in status.gpus}
        pids = dict.fromkeys(use.pid for use in reading.processes if use.pid)
        self._limits = LeaseLimits(state.host, leases, processes)
        self._container_by_pid = self._find_containers(find_holders(leases, processes, pids))
        self._user_by_pid: Mapping[int, int | None] = {
            pid: find_process_user(proc, pid)
            for pid, container in self._container_by_pid.items()
            if container is None and pid
        }
        self._names = self._find_names(state, processes)
        self._user_names: Mapping[int, str] = read_user_names(state.host) if self._user_by_pid else {}

    def usage(self) -> Usage:
        """Return the usage of each GPU, with its users."""
        reading, status = self._reading, self._status
        return Usage(
            enabled=status.enabled,
            gpus=with_few_users([self._gpu_usage(position) for position in range(len(reading.gpus))]),
            not_shown=reading.refused,
            incomplete=len(reading.cut_short) + reading.not_reached,
            problems=(*status.problems, *_cut_short(reading.cut_short), *_not_reached(reading.not_reached)),
        )

    def _find_names(self, state: State, processes: Processes) -> dict[Owner, str]:
        """Return the engines' names of containers, for root also of untracked ones, which others may not read."""
        uses: dict[Owner, Container] = dict(self._uses)
        # What root's runtimes know is no name for an id that a user has chosen.
        containers = filter(None, self._container_by_pid.values())
        there = {container.owner for container in containers if container.user is None}
        if there - uses.keys() and posix.geteuid() == 0:
            running = {(each.container_id, each.user): each for each in find_running_containers(state.host, processes)}
            uses |= {owner: container for owner, container in running.items() if owner in there}
        return _names_by_owner(uses)

    def _gpu_usage(self, position: int) -> GpuUsage:
        gpu, totals = self._reading.gpus[position], self._reading.totals[position]
        users = self._users(gpu)
        of_processes = sum(user.vram_bytes for user in users) if gpu.partition_total > 1 else None
        return GpuUsage(
            number=gpu.number,
            uuid=gpu.uuid,
            pci_address=str(gpu.pci_address),
            key=gpu.key,
            partition_rank=gpu.partition_rank,
            partition_total=gpu.partition_total,
            model=model_of(gpu),
            is_apu=gpu.is_apu,
            vram_total=totals.vram_total,
            vram_used=totals.vram_used if of_processes is None else of_processes,
            gtt_total=totals.gtt_total,
            gtt_used=totals.gtt_used,
            busy_percent=self._gpu_busy.get(gpu.number),
            users=tuple(sorted(users, key=lambda user: _sort_key(user, is_apu=gpu.is_apu))),
            product_name=self._products[gpu.key],
        )

    def _find_containers(self, holders: Mapping[int, Owner]) -> dict[int, ContainerOfProcess | None]:
        known_ids = {container_id for container_id, _ in self._uses}
        me = find_user()
        found: dict[int, ContainerOfProcess | None] = {}
        for pid in dict.fromkeys(use.pid for use in self._reading.processes):
            named = find_container(self._proc, pid, known_ids)
            by_cgroup = trusted_container(named, self._uses, me=me) if named else None
            found[pid] = _of_holder(holders.get(pid), by_cgroup)
        return found

    def _users(self, gpu: Gpu) -> list[GpuUser]:
        held: dict[Owner, list[UserProcess]] = {owner: [] for owner in self._reserved.get(gpu.number, ())}
        engines: dict[Owner, str] = {}
        for use in self._reading.processes:
            if use.gpu == gpu.number:
                container = self._container_by_pid[use.pid]
                owner = container.owner if container else ("", self._user_by_pid.get(use.pid))
                held.setdefault(owner, []).append(self._process(use))
                engines.setdefault(owner, container.engine if container else "")
        return [self._user(gpu, owner, engines.get(owner, ""), processes) for owner, processes in held.items()]

    def _user(self, gpu: Gpu, owner: Owner, engine: str, processes: Sequence[UserProcess]) -> GpuUser:
        reserved = self._reserved.get(gpu.number, {}).get(owner)
        container_id, user = owner
        limit_bytes, charged_bytes = self._find_limit(gpu, owner, processes) if container_id else NO_LIMIT
        return GpuUser(
            container_id=container_id,
            name=self._names.get(owner, ""),
            engine=engine,
            is_tracked=reserved is not None,
            since=reserved.since if reserved else None,
            processes=tuple(sorted(processes, key=lambda process: (-process.vram_bytes, process.pid))),
            user=user,
            user_name="" if container_id or user is None else self._user_names.get(user, ""),
            limit_bytes=limit_bytes,
            charged_bytes=charged_bytes,
        )

    def _find_limit(self, gpu: Gpu, owner: Owner, processes: Iterable[UserProcess]) -> Limit:
        """Return the limit of a container by one of its processes on the GPU, or else by its lease."""
        limited = ((each.limit_bytes, each.charged_bytes) for each in processes if each.limit_bytes is not None)
        return next(limited, None) or self._limits.find(owner, gpu)

    def _process(self, use: ProcessUse) -> UserProcess:
        return UserProcess(
            pid=use.pid,
            name=read_process_name(self._proc, use.pid) if use.pid else "",
            vram_bytes=use.vram_bytes,
            gtt_bytes=use.gtt_bytes,
            compute_units=use.compute_units,
            sdma_us=use.sdma_us,
            busy_percent=self._process_busy.get((use.pid, use.gpu)),
            uid=read_real_uid(self._proc, use.pid) if use.pid else None,
            is_partition_told=use.is_partition_told,
            limit_bytes=use.limit_bytes,
            charged_bytes=use.charged_bytes,
        )


def _sort_key(user: GpuUser, *, is_apu: bool) -> tuple[float, float, str, int]:
    """Return the sort key of the users of a GPU: those with most memory first."""
    memory = user.vram_bytes + (user.gtt_bytes if is_apu else 0)
    return -memory, user.since or 0, user.container_id, -1 if user.user is None else user.user


def _of_holder(owner: Owner | None, by_cgroup: ContainerOfProcess | None) -> ContainerOfProcess | None:
    """Return a process's container: by its cgroup, which shows the engine too, unless its lease names another one."""
    if owner is None or (by_cgroup and by_cgroup.owner == owner):
        return by_cgroup
    return ContainerOfProcess(container_id=owner[0], engine="", user=owner[1])


def _names_by_owner(uses: Mapping[Owner, Container]) -> dict[Owner, str]:
    """Return the names of containers, separately for each user: two users may have containers with the same id."""
    by_user: dict[int | None, list[Container]] = {}
    for (_, user), use in uses.items():
        by_user.setdefault(user, []).append(use)
    return {
        (each, user): name for user, of_user in by_user.items() for each, name in find_container_names(of_user).items()
    }


def _cut_short(pids: Sequence[int]) -> list[str]:
    """Return sentences about processes that were read only in part; a user may have many thousands of them."""
    named = [
        f"process {pid} has more open files or locks than are read, so its use may be incomplete"
        for pid in pids[:MOST_CUT_SHORT]
    ]
    more = len(pids) - MOST_CUT_SHORT
    if more <= 0:
        return named
    processes, their = ("process has", "its") if more == 1 else ("processes have", "their")
    return [
        *named,
        f"{more} more {processes} more open files or locks than are read, so {their} use may be incomplete",
    ]


def _not_reached(count: int) -> list[str]:
    if not count:
        return []
    processes = "process was" if count == 1 else "processes were"
    return [f"{count} {processes} not looked at within {CLIENT_SECONDS:g} seconds, so their use may be incomplete"]
