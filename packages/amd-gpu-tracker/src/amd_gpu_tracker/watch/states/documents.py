"""Formats the state and health of GPUs, and the queue, for programs: as JSON, and in Prometheus's text format."""

from __future__ import annotations

from amd_gpu_tracker.watch.show.prometheus import format_metrics
from amd_gpu_tracker.watch.states.state import STATES, GpuState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from amd_gpu_tracker.watch.show.prometheus import Sample

HELP = {
    "amd_gpu_state": "1 for the state that the GPU is in, 0 for the others.",
    "amd_gpu_reserved_seconds": "How long the GPU has been reserved.",
    "amd_gpu_temperature_celsius": "Temperature of the hottest spot of the GPU.",
    "amd_gpu_power_watts": "Power that the GPU draws.",
    "amd_gpu_errors_total": "Errors of memory and caches since the driver was loaded.",
    "amd_gpu_bad_pages": "Pages of memory that are retired.",
    "amd_gpu_starts_total": "Containers and programs that were given GPUs since the machine started.",
    "amd_gpu_refusals_total": "Containers and programs that were refused GPUs since the machine started.",
    "amd_gpu_repairs_total": "Reservations that ended without a release, found since the machine started.",
    "amd_gpu_service_failed": "1 if the service that gives GPUs to people has failed, else 0.",
    "amd_gpu_queue_jobs": "Jobs that wait for GPUs.",
    "amd_gpu_queue_longest_wait_seconds": "How long the longest-waiting job has waited.",
}


def format_state_metrics(
    states: Sequence[GpuState],
    *,
    counts: Mapping[str, int],
    waiting_since: Sequence[float],
    has_failed: bool = False,
    now: float,
) -> str:
    """Return the metrics of the GPUs, of jobs that wait since these times, and of the service; `counts` of events."""
    longest = max((now - since for since in waiting_since), default=0.0)
    queue: list[Sample] = [
        *((f"amd_gpu_{event}_total", {}, count) for event, count in counts.items()),
        ("amd_gpu_service_failed", {}, int(has_failed)),
        ("amd_gpu_queue_jobs", {}, len(waiting_since)),
        ("amd_gpu_queue_longest_wait_seconds", {}, max(0.0, longest)),
    ]
    return format_metrics([*queue, *(sample for gpu in states for sample in _samples(gpu, now))], HELP)


def _samples(gpu: GpuState, now: float) -> Iterator[Sample]:
    place = {"gpu_id": str(gpu.number), "pci_address": gpu.pci_address}
    yield from (("amd_gpu_state", {**place, "state": state}, int(gpu.state == state)) for state in STATES)
    if gpu.containers and gpu.since is not None:
        yield "amd_gpu_reserved_seconds", {**place, "person": gpu.person}, max(0.0, now - gpu.since)
    yield "amd_gpu_temperature_celsius", place, gpu.temperature
    yield "amd_gpu_power_watts", place, gpu.watts
    for kind, count in gpu.health.measured.errors:
        yield "amd_gpu_errors_total", {**place, "kind": kind}, count
    yield "amd_gpu_bad_pages", place, gpu.health.measured.bad_pages


def format_states_json(states: Sequence[GpuState], waiting_since: Sequence[float]) -> str:
    """Return the states, and since when jobs wait, as JSON; unknown values are null."""
    import json

    document = {"gpus": [_gpu_fields(gpu) for gpu in states], "waiting_since": sorted(waiting_since)}
    return json.dumps(document, indent=2)


def _gpu_fields(gpu: GpuState) -> dict[str, object]:
    fields = gpu.as_dict()
    for name in ("key", "host_total", "health", "has_unreadable", "has_leaked", "pod", "drained", "sick", "dirty"):
        del fields[name]
    texts = {name: fields[name] or None for name in ("model", "reason", "accessibility", "person", "what")}
    return {
        **fields,
        **texts,
        "uuid": None if gpu.uuid == "N/A" else gpu.uuid,
        "containers": [use.as_dict() for use in gpu.containers],
        "processes": [process.as_dict() for process in gpu.processes],
        "temperature": gpu.temperature,
        "watts": gpu.watts,
        "errors": dict(gpu.health.measured.errors),
        "bad_pages": gpu.health.measured.bad_pages,
        "is_asleep": gpu.health.is_asleep,
    }
