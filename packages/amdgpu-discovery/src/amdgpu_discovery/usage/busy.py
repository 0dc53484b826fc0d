"""Tell how busy GPUs and processes were between two readings."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from amdgpu_discovery.usage.reading import ProcessUse, UsageReading


def find_gpu_busy(before: UsageReading, after: UsageReading) -> dict[int, int | None]:
    """Return by GPU for how many percent of the time between two readings it worked, None where nothing tells."""
    return {gpu.number: _gpu_busy(before, after, position) for position, gpu in enumerate(after.gpus)}


def find_process_busy(before: UsageReading, after: UsageReading) -> dict[tuple[int, int], int]:
    """Return by process and GPU for how many percent of the time it kept the GPU at work."""
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
    told = [reading.totals[position].busy_percent for reading in (before, after) if position < len(reading.totals)]
    known = [percent for percent in told if percent is not None]
    if known:
        return round(sum(known) / len(known))
    earlier, later = ([use for use in each.processes if use.gpu == gpu.number] for each in (before, after))
    if gpu.partition_total > 1:
        # The power management measures the whole GPU. What KFD counts of a partition is its own.
        return _of_units(later, gpu.cu_count)
    return _of_engines(earlier, later, after.taken - before.taken) if any(use.engines for use in later) else None


def _of_units(uses: Iterable[ProcessUse], unit_count: int) -> int:
    """Return how many percent of the compute units have work."""
    return min(100, round(100 * sum(use.compute_units for use in uses) / unit_count)) if unit_count else 0


def _of_engines(before: Iterable[ProcessUse], after: Iterable[ProcessUse], elapsed: float) -> int:
    """Return how many percent of the time the busiest engine worked; engines work at the same time."""
    earlier, later = _times(before), _times(after)
    worked = [later[engine] - earlier.get(engine, later[engine]) for engine in later]
    return min(100, max(0, round(max(worked, default=0) / elapsed / 1e7))) if elapsed > 0 else 0


def _times(uses: Iterable[ProcessUse]) -> dict[str, int]:
    times: dict[str, int] = {}
    for use in uses:
        for engine, nanoseconds in use.engines:
            times[engine] = times.get(engine, 0) + nanoseconds
    return times
