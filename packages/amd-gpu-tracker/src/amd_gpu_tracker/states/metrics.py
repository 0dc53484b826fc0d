"""The state and health of GPUs, and the queue, in the text format of Prometheus."""

from __future__ import annotations

from amd_gpu_tracker.records.plain_text import printable
from amd_gpu_tracker.states.state import STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from amd_gpu_tracker.states.state import GpuState

HELP = {
    "amd_gpu_state": "1 for the state that the GPU is in, 0 for the others.",
    "amd_gpu_reserved_seconds": "For how long the GPU has been reserved.",
    "amd_gpu_temperature_celsius": "Temperature of the hottest place of the GPU.",
    "amd_gpu_power_watts": "Power that the GPU takes.",
    "amd_gpu_errors_total": "Errors of memory and caches since the driver was loaded.",
    "amd_gpu_bad_pages": "Pages of memory that are retired.",
    "amd_gpu_queue_jobs": "Jobs that wait for GPUs.",
    "amd_gpu_queue_longest_wait_seconds": "For how long the job waits that has waited longest.",
}


def format_state_metrics(states: Sequence[GpuState], *, waiting_since: Sequence[float], now: float) -> str:
    """Return the metrics of the GPUs, and of the jobs that wait since these times."""
    samples: dict[str, list[str]] = {name: [] for name in HELP}
    for gpu in states:
        for name, labels, value in _samples(gpu, now):
            samples[name].append(f"{name}{{{labels}}} {value:g}")
    longest = max((now - since for since in waiting_since), default=0.0)
    samples["amd_gpu_queue_jobs"] = [f"amd_gpu_queue_jobs {len(waiting_since)}"]
    samples["amd_gpu_queue_longest_wait_seconds"] = [f"amd_gpu_queue_longest_wait_seconds {max(0.0, longest):g}"]
    return "\n".join(line for name, lines in samples.items() if lines for line in _metric(name, lines))


def _samples(gpu: GpuState, now: float) -> Iterator[tuple[str, str, float]]:
    place = f'gpu_id="{gpu.number}",pci_address="{_escaped(gpu.pci_address)}"'
    yield from (("amd_gpu_state", f'{place},state="{state}"', float(gpu.state == state)) for state in STATES)
    if gpu.containers and gpu.since is not None:
        yield "amd_gpu_reserved_seconds", f'{place},person="{_escaped(gpu.person)}"', max(0.0, now - gpu.since)
    if gpu.temperature is not None:
        yield "amd_gpu_temperature_celsius", place, gpu.temperature
    if gpu.watts is not None:
        yield "amd_gpu_power_watts", place, gpu.watts
    for kind, count in gpu.health.measured.errors:
        yield "amd_gpu_errors_total", f'{place},kind="{_escaped(kind)}"', float(count)
    if gpu.health.measured.bad_pages is not None:
        yield "amd_gpu_bad_pages", place, float(gpu.health.measured.bad_pages)


def _metric(name: str, lines: Iterable[str]) -> Iterator[str]:
    yield f"# HELP {name} {HELP[name]}"
    yield f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}"
    yield from lines


def _escaped(text: str) -> str:
    return printable(text).replace("\\", "\\\\").replace('"', '\\"')
