"""The states of all GPUs as programs read them: JSON."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amd_gpu_tracker.states.state import GpuState


def format_states_json(states: Sequence[GpuState], waiting_since: Sequence[float]) -> str:
    """Return the states, and since when jobs wait; what is not known is null."""
    import json

    document = {"gpus": [_gpu_fields(gpu) for gpu in states], "waiting_since": sorted(waiting_since)}
    return json.dumps(document, indent=2)


def _gpu_fields(gpu: GpuState) -> dict[str, object]:
    fields = gpu.as_dict()
    for name in ("key", "health", "has_unreadable", "drained", "sick"):
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
