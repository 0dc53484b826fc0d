"""Read the usage repeatedly; between readings, the most that containers have used is remembered."""

from __future__ import annotations

import posix
import time

from amd_gpu_tracker.errors import NotPermitted
from amd_gpu_tracker.leases.status import read_status_with_leases
from amd_gpu_tracker.watch.usage.join import UsageJoin
from amd_gpu_tracker.watch.usage.peaks import (
    LONGEST_PEAK_TEXT,
    Peak,
    is_recorded,
    read_peaks,
    update_peaks,
    write_peaks,
)
from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.tables.models import find_product_names
from amdgpu_discovery.usage.reading import UsageReading, processes_directory, read_usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from amd_gpu_tracker.book.lock import Lock
    from amd_gpu_tracker.book.state import State
    from amd_gpu_tracker.leases.processes import Processes
    from amd_gpu_tracker.watch.usage.peaks import Key
    from amd_gpu_tracker.watch.usage.users import GpuUser, Usage


class UsageReader:
    """Reads the usage of a host's GPUs; from the second reading on it is known how busy they are.

    Readings by root record peaks, and so do readings of a simulated host.
    """

    def __init__(self, state: State, processes: Processes, lock: Lock) -> None:
        """Look at the host of `state`."""
        self._state = state
        self._processes = processes
        self._lock = lock
        self._before: UsageReading | None = None
        self._products: Mapping[str, str] = {}

    @property
    def keeps_peaks(self) -> bool:
        """Return whether peaks are written and shown."""
        return not self._state.is_rootless and (posix.geteuid() == 0 or not self._state.host.is_this_machine)

    def require_peaks(self) -> None:
        """Raise NotPermitted if peaks are not shown."""
        if not self.keeps_peaks:
            raise NotPermitted("only root may see the peaks", hint="run the command with sudo")

    def read(self) -> Usage:
        """Return who uses what now. Errors as `find_gpus`; GpusChanged if the GPUs are not the tracked ones."""
        return self._join(self._read())

    def read_twice(self, seconds: float) -> Usage:
        """Return what `read` does, and how busy GPUs were for these seconds.

        The second reading covers only processes that use a GPU in the first: most of a reading is the search for them.
        """
        first = self._before = self._read()
        time.sleep(seconds)
        second = self._read(only={use.pid for use in first.processes})
        return self._join(
            second.replace(refused=first.refused, cut_short=first.cut_short, not_reached=first.not_reached)
        )

    def _read(self, only: Container[int] | None = None) -> UsageReading:
        host = self._state.host
        return read_usage(host, find_gpus(host), proc=self._proc, only=only, before=self._before)

    def _join(self, reading: UsageReading) -> Usage:
        status, leases = read_status_with_leases(self._state, self._processes)
        # Product names are looked up in the first reading of a GPU.
        if not self._products.keys() >= {gpu.key for gpu in reading.gpus}:
            found = find_product_names(self._state.host, reading.gpus)
            self._products = {gpu.key: found[gpu.number] for gpu in reading.gpus}
        usage = UsageJoin(
            self._state,
            status,
            leases,
            reading,
            before=self._before,
            processes=self._processes,
            proc=self._proc,
            products=self._products,
        ).usage()
        self._before = reading
        return self._record_peaks(usage) if self.keeps_peaks else usage

    @property
    def _proc(self) -> str:
        proc = self._processes.directory
        return processes_directory(self._state.host) if proc == "/proc" else proc

    def _record_peaks(self, usage: Usage) -> Usage:
        seen = list(_seen(usage, time.time()))
        if not seen:
            return _with_peaks(usage, read_peaks(self._state))
        self._state.prepare()
        with self._lock(f"{self._state.run_directory}/peaks.lock"):
            peaks = update_peaks(read_peaks(self._state), seen)
            write_peaks(self._state, peaks)
        return _with_peaks(usage, peaks)


def _with_peaks(usage: Usage, peaks: Mapping[Key, Peak]) -> Usage:
    """Return the usage with the remembered peaks of its containers."""
    gpus = (
        gpu.replace(
            users=tuple(_with_peak(user, peaks.get((user.container_id, gpu.key, user.user))) for user in gpu.users)
        )
        for gpu in usage.gpus
    )
    return usage.replace(gpus=tuple(gpus), peaks=tuple(peaks.values()))


def _with_peak(user: GpuUser, peak: Peak | None) -> GpuUser:
    if peak is None:
        return user
    # A container without processes on the GPU does not show its engine.
    return user.replace(
        name=user.name or peak.name,
        engine=user.engine or peak.engine,
        peak_bytes=peak.vram_bytes,
        peak_gtt_bytes=peak.gtt_bytes,
        last_used=peak.seen,
    )


def _seen(usage: Usage, now: float) -> Iterator[Peak]:
    for gpu in usage.gpus:
        for user in gpu.users:
            if user.container_id and user.processes and is_recorded(user.container_id):
                yield Peak(
                    container_id=user.container_id,
                    gpu=gpu.key,
                    name=user.name[:LONGEST_PEAK_TEXT],
                    engine=user.engine,
                    vram_bytes=user.vram_bytes,
                    gtt_bytes=user.gtt_bytes,
                    seen=now,
                    user=user.user,
                )
