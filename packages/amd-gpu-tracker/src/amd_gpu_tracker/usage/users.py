"""Who uses each GPU, and how much of it: containers, jobs, and processes in none."""

from __future__ import annotations

from amd_gpu_tracker.life.status import GpuRow
from amd_gpu_tracker.usage.peaks import Peak, format_title
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from amd_gpu_tracker.usage.containers import Owner

NO_CONTAINER = "(no container)"
# Of memory that no process has. An idle MI300X has 0.3 of 192 GiB in use, and page tables grow with what is used.
LEAST_BYTES = 256 << 20
LEAST_OF_TOTAL = 0.01
LEAST_OF_USED = 0.05
# Containers without a lease of one user, and users with processes in no container, because a user may make thousands
# with any names. Every one is a row and, for Prometheus, a time series that is kept for weeks. Containers with a lease
# are always told apart: how many leases of a user are read is bounded already.
MOST_APART = 32


class UserProcess(Value):
    """A process that uses a GPU.

    Attributes:
        pid: Its id; 0 for processes that are outside of the caller's pid namespace.
        name: What it calls itself, which may be anything; "" where it is gone.
        vram_bytes: Video memory.
        gtt_bytes: System memory that the GPU uses for it.
        compute_units: Compute units that had its work at the moment of reading.
        sdma_us: For how many microseconds the copy engines have worked for it.
        busy_percent: How much of the time it kept the GPU at work; None after one reading.
        uid: Real uid of the process; None where nothing tells.
        is_partition_told: Whether it is known which partition of the PCI function it uses.
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


class GpuUser(Value):
    """A container that uses a GPU or has it reserved, or the processes of a user that are in no container.

    Attributes:
        container_id: Id of the container; "" for processes that are in none.
        name: Name of the container; "" where it is not known.
        engine: Who made it, such as `docker`; "" where that is not known.
        is_tracked: Whether the tracker has given it this GPU.
        since: When it got the GPU, in seconds since 1970 (UTC); None where it is not tracked.
        peak_bytes: The most video memory that it was seen to use; None where nothing is remembered.
        peak_gtt_bytes: The most system memory that the GPU was seen to use for it; None where nothing is remembered.
        last_used: When it was last seen to use the GPU, in seconds since 1970 (UTC); None where nothing is remembered.
        processes: Its processes that use the GPU, those with most memory first.
        user: Uid of the user whose container or processes these are; None for containers of root and of the caller, and
            where that is not known.
        user_name: What the user of processes in no container is called on this host; "" where that is not known.
        others: How many containers of the user, or users with processes in no container, are summed here; 0 for one.
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

    @property
    def owner(self) -> Owner:
        """Return what tells it from others."""
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
        """Return what people call it, with who made it."""
        if self.container_id:
            return format_title(self.container_id, self.name, self.engine, self.user)
        if self.others:
            kind = "users" if self.user is None else f"containers of user {self.user}"
            return f"{'' if self.user is not None else f'{NO_CONTAINER} '}{self.others} more {kind}"
        called = self.user_name or ("" if self.user is None else f"user {self.user}")
        return f"{NO_CONTAINER} {called}".rstrip()


class GpuUsage(GpuRow):
    """A GPU and who uses it.

    Attributes:
        partition_rank: Position among the partitions of its PCI function, from 0.
        partition_total: How many partitions the PCI function has; 1 if it is not partitioned.
        model: Model, such as `MI210`.
        product_name: Under which name it is sold, such as `AMD Instinct MI210`; "" where that is not known.
        is_apu: Whether it is on one package with the processor, whose memory it uses.
        vram_total: Bytes of video memory; None where the kernel does not say.
        vram_used: Bytes of it that are used; of a partition what its processes use.
        gtt_total: Bytes of system memory that it may use; None where the kernel does not say.
        gtt_used: Bytes of those that it uses; None where the kernel does not say.
        busy_percent: How busy it was between two readings; None after one, or where nothing tells.
        users: Who uses it or has it reserved, those with most memory first.
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
        """Return the bytes of video memory that are used and that no process has; None where that is not known."""
        if self.vram_used is None or self.partition_total > 1:
            return None
        return max(0, self.vram_used - sum(user.vram_bytes for user in self.users))

    @property
    def is_in_unknown_use(self) -> bool:
        """Return whether more memory is not accounted for than what drivers and firmware keep for themselves."""
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
        not_shown: How many processes of other users could not be looked into.
        incomplete: Of how many processes not all could be read.
        problems: A sentence about each thing that could not be read.
        peaks: What containers have used at most, also those that are gone; () where that is not asked.
    """

    enabled: bool
    gpus: tuple[GpuUsage, ...]
    not_shown: int
    incomplete: int = 0
    problems: tuple[str, ...] = ()
    peaks: tuple[Peak, ...] = ()


def with_few_users(gpus: Sequence[GpuUsage]) -> tuple[GpuUsage, ...]:
    """Return the use of GPUs with the smallest summed.

    That is done with the containers of each user, and with users who have processes in no container.
    """
    surplus = _surplus(user for gpu in gpus for user in gpu.users)
    return tuple(_summed(gpu, surplus) for gpu in gpus) if surplus else tuple(gpus)


def _surplus(everyone: Iterable[GpuUser]) -> set[Owner]:
    """Return those who use less memory than the first few of their kind."""
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
        total = sums.get(user, each.replace(container_id="", name="", engine="", user_name="", user=user, processes=()))
        sums[user] = total.replace(others=total.others + 1, processes=(*total.processes, *each.processes))
    return gpu.replace(users=(*kept, *sums.values()))
