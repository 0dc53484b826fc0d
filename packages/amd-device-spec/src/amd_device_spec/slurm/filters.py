"""Variables by which ROCm chooses a second time, among the GPUs that a container was given."""

from __future__ import annotations

from amd_device_spec.slurm_job import parse_numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from amd_device_spec.settings import Settings
    from amd_device_spec.slurm_job import Job

# Each makes ROCm or HIP count the GPUs that it finds from 0; HIP obeys that of CUDA too.
FILTERS = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "CUDA_VISIBLE_DEVICES")


def remove_filters(spec: dict[str, Any], job: Job, settings: Settings) -> bool:
    """Take Slurm's own filters out of a spec's environment; return whether there were any.

    Slurm writes the positions on the host, or counts from 0 where it limits the job by a device cgroup. What is neither
    is the user's own, and means GPUs as they are counted in the container.
    """
    if settings.slurm_filters == "keep" or not job.gpus:
        return False
    positions = job.positions
    by_slurm = (positions, list(range(len(positions))))
    environment = spec["process"]["env"]
    kept = [variable for variable in environment if not _is_filter(variable, by_slurm)]
    changed = len(kept) < len(environment)
    environment[:] = kept
    return changed


def _is_filter(variable: str, by_slurm: Sequence[list[int]]) -> bool:
    name, _, value = variable.partition("=")
    return name in FILTERS and parse_numbers(value) in by_slurm
