"""Takes one reading of all GPUs and of every process that uses one.

KFD counts computing. DRM counts what goes through a render node, which may be a part of what KFD counts, all of it or
more, depending on the kernel's version. So for one process on one GPU the larger of both counts, never the sum.
"""

from __future__ import annotations

import posix
import time

from amdgpu_discovery.files import read_file
from amdgpu_discovery.usage.drm_clients import DrmScan, NodeUse, scan_drm_clients
from amdgpu_discovery.usage.kfd_processes import ProcessUse, read_kfd_uses
from amdgpu_discovery.usage.memory_limits import with_limits
from amdgpu_discovery.usage.totals import GpuTotals, read_totals
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence

    from amdgpu_discovery.gpu import Gpu
    from amdgpu_discovery.host import Host

    # A process and the number of a GPU.
    Pair = tuple[int, int]

# These open nodes for other processes, and pass the descriptors on to them.
SESSION_MANAGERS = ("systemd", "elogind", "seatd")
LARGEST_NAME = 256
# PROC_PID_INIT_INO of include/linux/proc_ns.h.
FIRST_PID_NAMESPACE = "pid:[4026531836]"


class UsageReading(Value):
    """What GPUs do at one moment.

    Attributes:
        gpus: The GPUs, by number.
        totals: What each of them reports about itself, in the same order.
        processes: What processes use, by GPU and process.
        refused: How many processes the caller may not inspect.
        cut_short: Processes that were read only in part.
        not_reached: How many processes were not read, because the time ran out.
        taken: When, in seconds of a clock that only goes forward.
    """

    gpus: tuple[Gpu, ...]
    totals: tuple[GpuTotals, ...]
    processes: tuple[ProcessUse, ...]
    refused: int
    cut_short: tuple[int, ...]
    not_reached: int
    taken: float


def read_usage(
    host: Host,
    gpus: Sequence[Gpu],
    *,
    proc: str = "/proc",
    only: Container[int] | None = None,
    before: UsageReading | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> UsageReading:
    """Return what the GPUs and the processes in `proc` do now; `gpus` are what `find_gpus` returned.

    With `only`, open nodes of other processes are not read. A driver that did not answer `before` is not asked.
    """
    earlier = zip(before.gpus, before.totals, strict=True) if before else ()
    hanging = {str(gpu.pci_address) for gpu, totals in earlier if totals.is_hanging}
    processes, scan = _read_processes(host, gpus, proc, only)
    return UsageReading(
        gpus=tuple(gpus),
        totals=read_totals(host, gpus, hanging=hanging),
        processes=processes,
        refused=len(scan.refused),
        cut_short=scan.cut_short,
        not_reached=scan.not_reached,
        taken=clock(),
    )


def read_process_uses(
    host: Host, gpus: Sequence[Gpu], *, proc: str = "/proc", only_computing: bool = False
) -> tuple[ProcessUse, ...]:
    """Return what processes use, by GPU and process, without asking the GPUs themselves: a driver may hang.

    With `only_computing`, the open files of processes that KFD does not list are not read: thousands may run. Where KFD
    names processes otherwise than `proc`, which are those of a container, all are read.
    """
    return _read_processes(host, gpus, proc, None, only_computing=only_computing)[0]


def _read_processes(
    host: Host, gpus: Sequence[Gpu], proc: str, only: Container[int] | None, *, only_computing: bool = False
) -> tuple[tuple[ProcessUse, ...], DrmScan]:
    computing = read_kfd_uses(host, gpus)
    has_pids_of_kfd = not host.is_this_machine or _has_machine_pids(proc)
    known = {use.pid for use in computing} if has_pids_of_kfd else set()
    only = known if only_computing and has_pids_of_kfd else only
    # Real processes do not open nodes of a simulated host.
    has_processes = host.is_this_machine or proc != "/proc"
    scan = scan_drm_clients(proc, first=known, only=only) if has_processes else DrmScan()
    drawing = _on_gpus(scan.uses, gpus, proc, {(use.pid, use.gpu) for use in computing} if has_pids_of_kfd else set())
    if not has_pids_of_kfd:
        computing = _without_found(_as_outside(computing), drawing)
    return tuple(with_limits(host, gpus, merge_uses(computing, drawing), proc)), scan


def sees_all_processes(host: Host, proc: str) -> bool:
    """Return whether this process sees every process that can hold a GPU: root does, outside of pid namespaces."""
    is_described = proc != "/proc"
    return posix.geteuid() == 0 and (is_described or (host.is_this_machine and _has_machine_pids(proc)))


def processes_directory(host: Host) -> str:
    """Return the directory of a host's processes: /proc, or the one that a simulated host has for its own."""
    simulated = host.path("/proc")
    return "/proc" if host.is_this_machine or host.stat("/proc") is None else simulated


def read_process_name(proc: str, pid: int) -> str:
    """Return the name that a process gave itself, "" if it is gone. The name may contain anything."""
    try:
        return read_file(f"{proc}/{pid}/comm", largest=LARGEST_NAME).decode("utf-8", "replace").removesuffix("\n")
    except OSError:
        return ""


def merge_uses(computing: Iterable[ProcessUse], drawing: Iterable[ProcessUse]) -> list[ProcessUse]:
    """Return one use for each process and GPU, with the larger of the values of KFD and DRM."""
    merged = {(use.pid, use.gpu): use for use in drawing}
    for use in computing:
        known = merged.get((use.pid, use.gpu))
        merged[use.pid, use.gpu] = (
            use
            if known is None
            else use.replace(
                vram_bytes=max(use.vram_bytes, known.vram_bytes), gtt_bytes=known.gtt_bytes, engines=known.engines
            )
        )
    return [merged[pair] for pair in sorted(merged, key=lambda pair: (pair[1], pair[0]))]


def _has_machine_pids(proc: str) -> bool:
    """Return whether process ids in `proc` are those of the first pid namespace, after which KFD names its files."""
    try:
        return posix.readlink(f"{proc}/self/ns/pid") == FIRST_PID_NAMESPACE
    except OSError:
        return False


def _as_outside(uses: Iterable[ProcessUse]) -> list[ProcessUse]:
    """Return the uses of each GPU as those of process 0, because their ids belong to other processes here."""
    sums: dict[int, ProcessUse] = {}
    for use in uses:
        total = sums.get(use.gpu, ProcessUse(pid=0, gpu=use.gpu))
        sums[use.gpu] = total.replace(
            vram_bytes=total.vram_bytes + use.vram_bytes,
            compute_units=total.compute_units + use.compute_units,
            sdma_us=total.sdma_us + use.sdma_us,
        )
    return list(sums.values())


def _without_found(outside: Iterable[ProcessUse], drawing: Iterable[ProcessUse]) -> list[ProcessUse]:
    """Subtract what DRM counts for processes here from what KFD counts on each GPU, because KFD counts both."""
    found: dict[int, int] = {}
    for use in drawing:
        found[use.gpu] = found.get(use.gpu, 0) + use.vram_bytes
    left = [use.replace(vram_bytes=max(0, use.vram_bytes - found.get(use.gpu, 0))) for use in outside]
    # Work alone may come from the processes that were found.
    return [use for use in left if use.vram_bytes or use.gpu not in found]


def _on_gpus(uses: Iterable[NodeUse], gpus: Sequence[Gpu], proc: str, computing: Container[Pair]) -> list[ProcessUse]:
    """Return what processes use through DRM, each client once; `computing` are the pairs that KFD knows."""
    holders: dict[tuple[int, str], list[NodeUse]] = {}
    untold: set[Pair] = set()
    for use in uses:
        number, is_told = _number_of(use, gpus, proc, computing)
        if number is not None:
            holders.setdefault((number, use.client.client_id), []).append(use)
            untold |= set() if is_told else {(use.pid, number)}
    sums: dict[Pair, ProcessUse] = {}
    for (number, _), held in holders.items():
        use = _owner(held, proc)
        pair = use.pid, number
        first = ProcessUse(pid=use.pid, gpu=number, is_partition_told=pair not in untold)
        sums[pair] = _add(sums.get(pair, first), use)
    return [use for use in sums.values() if use.vram_bytes or use.gtt_bytes or any(time for _, time in use.engines)]


def _number_of(use: NodeUse, gpus: Sequence[Gpu], proc: str, computing: Container[Pair]) -> tuple[int | None, bool]:
    """Return the GPU behind a node, and whether that is certain.

    Partitions share a PCI address, so the name of the node decides. In a container KFD decides, because a node may have
    any name there. The device number would be certain, but stat(2) of a descriptor that the process replaces meanwhile
    asks a file system of that user (FUSE), which may never answer.
    """
    address = use.client.pci_address
    there = [gpu for gpu in gpus if str(gpu.pci_address) == address] if address else list(gpus)
    if address and len(there) == 1:
        return there[0].number, True
    names = ((gpu.number, (gpu.render_path, gpu.card_path)) for gpu in there)
    named = next((number for number, paths in names if f"/dev/dri/{use.node}" in paths), None)
    if _mount_namespace(proc, use.pid) == _mount_namespace(proc, "self"):
        return named, True
    known = [gpu.number for gpu in there if (use.pid, gpu.number) in computing]
    if known:
        return (named if named in known else known[0]), True
    return (named if named is not None or not address or not there else there[0].number), False


def _mount_namespace(proc: str, pid: int | str) -> str:
    try:
        return posix.readlink(f"{proc}/{pid}/ns/mnt")
    except OSError:
        return ""


def _owner(held: list[NodeUse], proc: str) -> NodeUse:
    """Return the holder for which a client counts: the first that does not open nodes for others."""
    if len({use.pid for use in held}) == 1:
        return held[0]
    names = ((use, read_process_name(proc, use.pid)) for use in held)
    return next((use for use, name in names if not name.startswith(SESSION_MANAGERS)), held[0])


def _add(total: ProcessUse, use: NodeUse) -> ProcessUse:
    times = dict(total.engines)
    for engine, nanoseconds in use.client.engines:
        times[engine] = times.get(engine, 0) + nanoseconds
    return total.replace(
        vram_bytes=total.vram_bytes + use.client.vram_bytes,
        gtt_bytes=total.gtt_bytes + use.client.gtt_bytes,
        engines=tuple(sorted(times.items())),
    )


def find_gpu_busy(before: UsageReading, after: UsageReading) -> dict[int, int | None]:
    """Return by GPU for how many percent of the time between two readings it worked, None if unknown."""
    return {gpu.number: _gpu_busy(before, after, position) for position, gpu in enumerate(after.gpus)}


def find_process_busy(before: UsageReading, after: UsageReading) -> dict[tuple[int, int], int]:
    """Return by process and GPU for how many percent of the time the process kept the GPU at work."""
    earlier = {(use.pid, use.gpu): use for use in before.processes}
    units = {gpu.number: gpu.cu_count for gpu in after.gpus}
    elapsed = after.taken - before.taken
    return {
        (use.pid, use.gpu): max(
            _of_engines([earlier[use.pid, use.gpu]], [use], elapsed) if (use.pid, use.gpu) in earlier else 0,
            _of_units([use], units[use.gpu]),
        )
        for use in after.processes
    }


def _gpu_busy(before: UsageReading, after: UsageReading, position: int) -> int | None:
    gpu = after.gpus[position]
    shares = [reading.totals[position].busy_percent for reading in (before, after) if position < len(reading.totals)]
    known = [percent for percent in shares if percent is not None]
    if known:
        return round(sum(known) / len(known))
    earlier, later = ([use for use in each.processes if use.gpu == gpu.number] for each in (before, after))
    if gpu.partition_total > 1:
        # The power management measures the whole GPU; KFD counts each partition.
        return _of_units(later, gpu.cu_count)
    return _of_engines(earlier, later, after.taken - before.taken) if any(use.engines for use in later) else None


def _of_units(uses: Iterable[ProcessUse], unit_count: int) -> int:
    """Return how many percent of the compute units have work."""
    return min(100, round(100 * sum(use.compute_units for use in uses) / unit_count)) if unit_count else 0


def _of_engines(before: Iterable[ProcessUse], after: Iterable[ProcessUse], elapsed: float) -> int:
    """Return how many percent of the time the busiest engine worked; engines work in parallel."""
    earlier, later = _times(before), _times(after)
    worked = [later[engine] - earlier.get(engine, later[engine]) for engine in later]
    return min(100, max(0, round(max(worked, default=0) / elapsed / 1e7))) if elapsed > 0 else 0


def _times(uses: Iterable[ProcessUse]) -> dict[str, int]:
    times: dict[str, int] = {}
    for use in uses:
        for engine, nanoseconds in use.engines:
            times[engine] = times.get(engine, 0) + nanoseconds
    return times
