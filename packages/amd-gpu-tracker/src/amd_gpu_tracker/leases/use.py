"""Finds whether GPUs are in use, reserved or not. KFD and the driver count it; /proc only shows by whom."""

from __future__ import annotations

from amdgpu_discovery.gpu import LEAST_VRAM, MEBIBYTE, Gpu, is_vram_used
from amdgpu_discovery.usage.kfd_processes import ProcessUse, read_kfd_uses
from amdgpu_discovery.usage.totals import GpuTotals
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from amdgpu_discovery.health.reading import Health
    from amdgpu_discovery.host import Host

# Of one sample, which the firmware averages over about a millisecond: tools that look cause a few percent.
LEAST_BUSY = 10


class GpuProcess(Value):
    """A process that uses a GPU.

    Attributes:
        pid: Its id; 0 if it is in another pid namespace.
        program: The name it gives itself; "" if unknown.
        person: Name of its user, or the number; "" if unknown.
        vram_bytes: Video memory that it uses.
        limit_bytes: The limit of its cgroup, or container, on memory of the GPU's board; None without one.
        charged_bytes: How much counts towards that limit.
    """

    pid: int
    program: str = ""
    person: str = ""
    vram_bytes: int = 0
    limit_bytes: int | None = None
    charged_bytes: int | None = None


class GpuLoad(Value):
    """How much of a GPU is in use.

    Attributes:
        totals: What the GPU reports about itself.
        kfd_vram: Bytes of its memory that processes have for computing.
        compute_units: How many of its compute units have work.
    """

    totals: GpuTotals
    kfd_vram: int = 0
    compute_units: int = 0

    @property
    def vram_used(self) -> int | None:
        """Return how much of its memory is in use; for a partition, only KFD reports that."""
        return self.totals.vram_used if self.totals.vram_used is not None else self.kfd_vram or None

    @property
    def is_used(self) -> bool:
        """Return whether a program uses it."""
        is_in_totals = is_vram_used(self.totals.vram_used or 0, self.totals.vram_total or 0)
        has_memory = self.kfd_vram > LEAST_VRAM or is_in_totals
        return has_memory or self.compute_units > 0 or (self.totals.busy_percent or 0) >= LEAST_BUSY

    @property
    def is_computing(self) -> bool:
        """Return whether KFD lists a process that uses it."""
        return bool(self.kfd_vram or self.compute_units)

    @property
    def is_only_memory(self) -> bool:
        """Return whether memory is in use although nothing computes, and KFD counts no memory of a process."""
        is_busy = self.compute_units > 0 or (self.totals.busy_percent or 0) >= LEAST_BUSY
        return self.is_used and not (is_busy or self.kfd_vram)


def read_gpu_uses(host: Host, gpus: Sequence[Gpu], health: Mapping[str, Health]) -> dict[int, GpuLoad]:
    """Return the load of each GPU by number, from sysfs alone: from `health`, by PCI address, and from KFD."""
    uses: dict[int, list[ProcessUse]] = {}
    for use in read_kfd_uses(host, gpus):
        uses.setdefault(use.gpu, []).append(use)
    return {
        gpu.number: GpuLoad(
            totals=_totals(gpu, health),
            kfd_vram=sum(use.vram_bytes for use in uses.get(gpu.number, ())),
            compute_units=sum(use.compute_units for use in uses.get(gpu.number, ())),
        )
        for gpu in gpus
    }


def _totals(gpu: Gpu, health: Mapping[str, Health]) -> GpuTotals:
    """Return what a GPU reports about itself, which is about all its partitions together."""
    address = str(gpu.pci_address)
    if gpu.partition_total > 1 or address not in health:
        return GpuTotals(vram_total=gpu.vram_bytes)
    seen = health[address].measured
    return GpuTotals(
        vram_total=seen.vram_total or gpu.vram_bytes, vram_used=seen.vram_used, busy_percent=seen.busy_percent
    )


def find_gpu_processes(
    host: Host, gpus: Sequence[Gpu], *, only_computing: bool = False
) -> dict[int, tuple[GpuProcess, ...]]:
    """Return by number the processes that use each GPU, those with most memory first.

    This reads all processes; with `only_computing`, those that KFD lists.
    """
    # Commands that choose GPUs need this only for a refusal.
    from amdgpu_discovery.usage.people import read_user_names
    from amdgpu_discovery.usage.reading import processes_directory, read_process_uses

    proc = processes_directory(host)
    names = read_user_names(host)
    found: dict[int, list[GpuProcess]] = {gpu.number: [] for gpu in gpus}
    for use in read_process_uses(host, gpus, proc=proc, only_computing=only_computing):
        found[use.gpu].append(_name(use, proc, names))
    return {
        number: tuple(sorted(processes, key=lambda process: (-process.vram_bytes, process.pid)))
        for number, processes in found.items()
    }


def sees_all_processes(host: Host) -> bool:
    """Return whether a GPU for which `find_gpu_processes` returns none has no process: only root can know that."""
    from amdgpu_discovery.usage.reading import processes_directory
    from amdgpu_discovery.usage.reading import sees_all_processes as sees_all

    return sees_all(host, processes_directory(host))


def _name_process(process: GpuProcess, more: str) -> str:
    if not process.pid:
        return "a process that is not visible from here"
    if not process.program:
        return f"process {process.pid}{more}"
    whose = f" of {process.person}" if process.person else ""
    return f"process {process.pid} ({process.program}{whose}){more}"


def format_use(use: GpuLoad, processes: Sequence[GpuProcess], *, has_leaked: bool = False) -> str:
    """Return who uses a GPU without a reservation or, if that is unknown, how much of it is in use.

    `has_leaked` is root's verdict that no process holds this memory.
    """
    if processes:
        more = f" and {len(processes) - 1} more" if len(processes) > 1 else ""
        return f"used by {_name_process(processes[0], more)} without a reservation"
    used, busy = use.vram_used or 0, use.totals.busy_percent or 0
    if has_leaked:
        return f"leaked: {used // MEBIBYTE:,} MiB that no process holds; a reset of the GPU or a reboot frees it"
    return f"used without a reservation: {used // MEBIBYTE} MiB of its memory, busy {busy} %"


def _name(use: ProcessUse, proc: str, names: dict[int, str]) -> GpuProcess:
    from amd_gpu_tracker.leases.containers import find_process_user
    from amdgpu_discovery.usage.reading import read_process_name

    uid = find_process_user(proc, use.pid) if use.pid else None
    return GpuProcess(
        pid=use.pid,
        program=read_process_name(proc, use.pid) if use.pid else "",
        person="" if uid is None else names.get(uid, str(uid)),
        vram_bytes=use.vram_bytes,
        limit_bytes=use.limit_bytes,
        charged_bytes=use.charged_bytes,
    )
