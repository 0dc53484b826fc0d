"""Formats usage for programs: as JSON, and as the text that Prometheus's node exporter collects from files."""

from __future__ import annotations

from amd_gpu_tracker.watch.show.prometheus import format_metrics
from amdgpu_discovery.gpu import MEBIBYTE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from amd_gpu_tracker.watch.show.prometheus import Sample
    from amd_gpu_tracker.watch.usage.users import GpuUsage, GpuUser, Usage

# For sums of containers or users, instead of an id or a uid.
OTHERS = "(others)"
# Names without `amd_` are those of ROCm's device-metrics-exporter (docs/configuration/metricslist.md), which also
# counts memory in units of 2^20 bytes.
HELP = {
    "gpu_nodes_total": "Number of GPUs and partitions.",
    "gpu_total_vram": "Video memory in MiB.",
    "gpu_used_vram": "Video memory in use in MiB.",
    "gpu_free_vram": "Video memory not in use in MiB.",
    "gpu_total_gtt": "System memory that the GPU may use in MiB.",
    "gpu_used_gtt": "System memory that the GPU uses in MiB.",
    "gpu_free_gtt": "System memory that the GPU may use but does not, in MiB.",
    "gpu_gfx_activity": "How busy the GPU is in percent.",
    "amd_gpu_container_vram_bytes": "Video memory of a container; without a container id, of processes in none.",
    "amd_gpu_container_gtt_bytes": "System memory that the GPU uses for a container.",
    "amd_gpu_container_limit_vram_bytes": "The limit on the video memory of a container, as the kernel enforces it.",
    "amd_gpu_container_charged_vram_bytes": "Video memory that counts towards the limit of a container.",
    "amd_gpu_container_peak_vram_bytes": "The most video memory that a container was seen to use.",
    "amd_gpu_container_peak_gtt_bytes": "The most system memory that the GPU was seen to use for a container.",
    "amd_gpu_container_processes": "Processes of a container that use the GPU.",
    "amd_gpu_container_tracked": "1 if the GPU Tracker has given the GPU to the container, else 0.",
    "amd_gpu_processes_not_shown": "Processes of other users that could not be read.",
    "amd_gpu_processes_incomplete": "Processes that could be read only in part, so their use may be incomplete.",
}


def format_usage_json(usage: Usage) -> str:
    """Return everything as JSON; unknown values are null."""
    import json

    document = {
        "enabled": usage.enabled,
        "gpus": [_gpu_fields(gpu) for gpu in usage.gpus],
        "processes_not_shown": usage.not_shown,
        "peaks": [{**peak.as_dict(), "name": peak.name or None, "engine": peak.engine or None} for peak in usage.peaks],
        "problems": list(usage.problems),
    }
    return json.dumps(document, indent=2)


def format_prometheus(usage: Usage) -> str:
    """Return the usage in the text format of Prometheus, for the textfile collector of its node exporter."""
    samples: list[Sample] = [
        ("gpu_nodes_total", {}, len(usage.gpus)),
        ("amd_gpu_processes_not_shown", {}, usage.not_shown),
        ("amd_gpu_processes_incomplete", {}, usage.incomplete),
    ]
    for gpu in usage.gpus:
        samples += [*_gpu_samples(gpu), *(each for user in gpu.users for each in _user_samples(gpu, user))]
    return format_metrics(samples, HELP)


def _gpu_fields(gpu: GpuUsage) -> dict[str, object]:
    fields = gpu.as_dict()
    del fields["key"]
    return {
        **fields,
        "uuid": None if gpu.uuid == "N/A" else gpu.uuid,
        "vram_not_accounted_for": gpu.not_accounted_for,
        "product_name": gpu.product_name or None,
        "users": [_user_fields(user) for user in gpu.users],
    }


def _user_fields(user: GpuUser) -> dict[str, object]:
    fields = user.as_dict()
    processes = [{**process.as_dict(), "name": process.name or None} for process in fields.pop("processes")]
    texts = {name: fields[name] or None for name in ("container_id", "name", "engine", "user_name")}
    return {**fields, **texts, "vram_bytes": user.vram_bytes, "gtt_bytes": user.gtt_bytes, "processes": processes}


def _gpu_samples(gpu: GpuUsage) -> Iterator[Sample]:
    labels = {**_place(gpu), "model": gpu.model, "uuid": gpu.uuid, "pci_address": gpu.pci_address}
    for memory, total, used in (("vram", gpu.vram_total, gpu.vram_used), ("gtt", gpu.gtt_total, gpu.gtt_used)):
        yield f"gpu_total_{memory}", labels, None if total is None else total // MEBIBYTE
        yield f"gpu_used_{memory}", labels, None if used is None else used // MEBIBYTE
        yield f"gpu_free_{memory}", labels, None if total is None or used is None else max(0, total - used) // MEBIBYTE
    yield "gpu_gfx_activity", labels, gpu.busy_percent


def _user_samples(gpu: GpuUsage, user: GpuUser) -> Iterator[Sample]:
    others = OTHERS if user.others else ""
    labels = {
        **_place(gpu),
        "container_id": user.container_id or ("" if user.user is None else others),
        "container": user.name,
        "engine": user.engine,
        "user": others if user.user is None else str(user.user),
    }
    yield "amd_gpu_container_vram_bytes", labels, user.vram_bytes
    yield "amd_gpu_container_gtt_bytes", labels, user.gtt_bytes
    yield "amd_gpu_container_limit_vram_bytes", labels, user.limit_bytes
    yield "amd_gpu_container_charged_vram_bytes", labels, user.charged_bytes
    yield "amd_gpu_container_peak_vram_bytes", labels, user.peak_bytes
    yield "amd_gpu_container_peak_gtt_bytes", labels, user.peak_gtt_bytes
    yield "amd_gpu_container_processes", labels, len(user.processes)
    yield "amd_gpu_container_tracked", labels, int(user.is_tracked)


def _place(gpu: GpuUsage) -> dict[str, str]:
    return {"gpu_id": str(gpu.number), "gpu_partition_id": str(gpu.partition_rank)}
