"""Who uses each GPU, and how much of it: containers, jobs, and processes outside of containers."""

from __future__ import annotations

from amd_gpu_tracker.leases.status import GpuRow
from amd_gpu_tracker.watch.usage.peaks import Peak, format_title
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from amd_gpu_tracker.leases.containers import Owner

NO_CONTAINER = "(no container)"
# For memory of no process. An idle MI300X has 0.3 of 192 GiB in use, and page tables grow with the memory in use.
LEAST_BYTES = 256 << 20
LEAST_OF_TOTAL = 0.01
LEAST_OF_USED = 0.05
# For a user's containers without a lease, and for users with processes outside of containers, because a user may make
# thousands with any names. Every one is a row and, for Prometheus, a time series that is kept for weeks. Containers
# with a lease are always listed: the number of leases that are read for a user has a limit already.
MOST_APART = 32


class UserProcess(Value):
    """A process that uses a GPU.

    Attributes:
        pid: Its id; 0 for processes outside of the caller's pid namespace.
        name: The name it gives itself, which may be anything; "" if it is gone.
        vram_bytes: Video memory.
        gtt_bytes: System memory that the GPU uses for it.
        compute_units: Compute units that had its work at the moment of reading.
        sdma_us: For how many microseconds the copy engines have worked for it.
        busy_percent: How much of the time it kept the GPU at work; None after one reading.
        uid: Real uid of the process; None if unknown.
        is_partition_told: Whether it is known which partition of the PCI function it uses.
        limit_bytes: The limit of its cgroup, or container, on memory of the GPU's board; None without one.
        charged_bytes: How much counts towards that limit.
    """

    pid: int
    name: str
    vram_bytes: int
    gtt_bytes: int
    compute_units: int
    sdma_us: int
    busy_percent: int | None
    uid: int | None = None
    is_partition_told: bool = True
    limit_bytes: int | None = None
    charged_bytes: int | None = None


class GpuUser(Value):
    """A container that uses a GPU or has it reserved, or the processes of a user outside of containers.

    Attributes:
        container_id: Id of the container; "" for processes outside of containers.
        name: Name of the container; "" if unknown.
        engine: The maker of the container, such as `docker`; "" if unknown.
        is_tracked: Whether the tracker has given it this GPU.
        since: When it got the GPU, in seconds since 1970 (UTC); None if it is not tracked.
        peak_bytes: The most video memory that it was seen to use; None if nothing is remembered.
        peak_gtt_bytes: The most system memory that the GPU was seen to use for it; None if nothing is remembered.
        last_used: When it was last seen to use the GPU, in seconds since 1970 (UTC); None if nothing is remembered.
        processes: Its processes that use the GPU, those with most memory first.
        user: Uid of the user of the container or the processes; None for containers of root and of the caller, and if
            unknown.
        user_name: This host's name of the user of processes outside of containers; "" if unknown.
        others: How many containers of the user, or users with processes outside of containers, are summed; 0 for one.
        limit_bytes: The limit of a container or job on memory of the GPU's board; None without one.
        charged_bytes: How much counts towards that limit.
    """

    container_id: str
    name: str
    engine: str
    is_tracked: bool
    since: float | None
    peak_bytes: int | None = None
    peak_gtt_bytes: int | None = None
    last_used: float | None = None
    processes: tuple[UserProcess, ...] = ()
    user: int | None = None
    user_name: str = ""
    others: int = 0
    limit_bytes: int | None = None
    charged_bytes: int | None = None

    @property
    def owner(self) -> Owner:
        """Return what identifies it."""
        return self.container_id, self.user

    @property
    def vram_bytes(self) -> int:
        """Return the video memory of all its processes."""
        return sum(process.vram_bytes for process in self.processes)

    @property
    def gtt_bytes(self) -> int:
        """Return the system memory that the GPU uses for its processes."""
        return sum(process.gtt_bytes for process in self.processes)

    @property
    def title(self) -> str:
        """Return its name for people, with its maker."""
        if self.container_id:
            return format_title(self.container_id, self.name, self.engine, self.user)
        if self.others:
            kind = "users" if self.user is None else f"containers of user {self.user}"
            return f"{'' if self.user is not None else f'{NO_CONTAINER} '}{self.others} more {kind}"
        called = self.user_name or ("" if self.user is None else f"user {self.user}")
        return f"{NO_CONTAINER} {called}".rstrip()


class GpuUsage(GpuRow):
    """A GPU and its users.

    Attributes:
        partition_rank: Position among the partitions of its PCI function, from 0.
        partition_total: How many partitions the PCI function has; 1 if it is not partitioned.
        model: Model, such as `MI210`.
        product_name: The name under which it is sold, such as `AMD Instinct MI210`; "" if unknown.
        is_apu: Whether it is on one package with the processor, whose memory it uses.
        vram_total: Bytes of video memory; None if the kernel does not report it.
        vram_used: Bytes of it in use; for a partition those of its processes.
        gtt_total: Bytes of system memory that it may use; None if the kernel does not report it.
        gtt_used: Bytes of those in use; None if the kernel does not report it.
        busy_percent: How busy it was between two readings; None after one, or if unknown.
        users: The containers and processes that use it or have it reserved, those with most memory first.
    """

    partition_rank: int
    partition_total: int
    model: str
    is_apu: bool
    vram_total: int | None
    vram_used: int | None
    gtt_total: int | None
    gtt_used: int | None
    busy_percent: int | None
    users: tuple[GpuUser, ...]
    product_name: str

    @property
    def not_accounted_for(self) -> int | None:
        """Return the bytes of video memory in use that belong to no process; None if unknown."""
        if self.vram_used is None or self.partition_total > 1:
            return None
        return max(0, self.vram_used - sum(user.vram_bytes for user in self.users))

    @property
    def is_in_unknown_use(self) -> bool:
        """Return whether more memory is not accounted for than drivers and firmware keep for themselves."""
        missing = self.not_accounted_for or 0
        share = max((self.vram_used or 0) * LEAST_OF_USED, (self.vram_total or 0) * LEAST_OF_TOTAL)
        return missing > max(share, LEAST_BYTES)

    def memory_of(self, vram_bytes: int, gtt_bytes: int) -> int:
        """Return the memory that counts on this GPU: on an APU both kinds, which are the same memory."""
        return vram_bytes + (gtt_bytes if self.is_apu else 0)


class Usage(Value):
    """Who uses how much of each GPU.

    Attributes:
        enabled: Whether GPUs are tracked.
        gpus: The GPUs, by number.
        not_shown: How many processes of other users could not be inspected.
        incomplete: How many processes could be read only in part.
        problems: A sentence about each thing that could not be read.
        peaks: The most that containers have used, also those that are gone; () if this is not requested.
    """

    enabled: bool
    gpus: tuple[GpuUsage, ...]
    not_shown: int
    incomplete: int = 0
    problems: tuple[str, ...] = ()
    peaks: tuple[Peak, ...] = ()


def with_few_users(gpus: Sequence[GpuUsage]) -> tuple[GpuUsage, ...]:
    """Return the use of GPUs, with the smallest users summed.

    This affects the containers of each user, and users who have processes outside of containers.
    """
    surplus = _surplus(user for gpu in gpus for user in gpu.users)
    return tuple(_summed(gpu, surplus) for gpu in gpus) if surplus else tuple(gpus)


def _surplus(everyone: Iterable[GpuUser]) -> set[Owner]:
    """Return those who use less memory than the first MOST_APART of their kind."""
    memory: dict[int | None, dict[Owner, int]] = {}
    for each in everyone:
        is_of_root = each.container_id and each.user is None
        if not each.is_tracked and not is_of_root:
            alike = memory.setdefault(each.user if each.container_id else None, {})
            alike[each.owner] = alike.get(each.owner, 0) + each.vram_bytes + each.gtt_bytes
    ranked = (sorted(alike, key=lambda owner: -alike[owner]) for alike in memory.values())
    return {owner for owners in ranked for owner in owners[MOST_APART:]}


def _summed(gpu: GpuUsage, surplus: Container[Owner]) -> GpuUsage:
    kept: list[GpuUser] = []
    sums: dict[int | None, GpuUser] = {}
    for each in gpu.users:
        if each.owner not in surplus or each.is_tracked:
            kept.append(each)
            continue
        user = each.user if each.container_id else None
        total = sums.get(user, _without_name(each, user))
        sums[user] = total.replace(others=total.others + 1, processes=(*total.processes, *each.processes))
    return gpu.replace(users=(*kept, *sums.values()))


def _without_name(first: GpuUser, user: int | None) -> GpuUser:
    """Return the sum of no users yet, like the first of them; containers have a limit each, so the sum has none."""
    named = {"container_id": "", "name": "", "engine": "", "user_name": "", "user": user}
    return first.replace(**named, processes=(), limit_bytes=None, charged_bytes=None)
