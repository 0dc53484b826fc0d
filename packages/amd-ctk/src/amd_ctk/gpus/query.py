"""Facts about the GPUs of a host for other programs: fields by name, and node labels for clusters."""

from __future__ import annotations

import re
from collections.abc import Sequence

from amd_ctk.swarm.resources import build_labels
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.gpu import Gpu
from amdgpu_discovery.requirements.facts import ContainerFacts, JudgedGpu
from amdgpu_discovery.tables.models import model_of
from amdgpu_discovery.tables.targets import family_of

FIELD = re.compile(r"\{([^{}]*)\}")
# Prefix of labels in ROCm/k8s-device-plugin, cmd/k8s-node-labeller.
PREFIX = "amd.com/"
GIBIBYTE = 2**30
# Node Feature Discovery, "Local feature source": the features serve its image compatibility, without node labels.
NO_LABELS = "# +no-label"


class QueryError(ToolkitError):
    """A format of `gpu query` is invalid."""

    exit_code = 2


def format_gpus(text: str, gpus: Sequence[Gpu], facts: ContainerFacts) -> list[str]:
    """Return one line per GPU, without repeating equal lines; QueryError for an unknown field."""
    described = {gpu.number: gpu for gpu in facts.gpus}
    lines = [_format(text, _fields(gpu, described[gpu.number], facts)) for gpu in gpus]
    return list(dict.fromkeys(lines))


def _format(text: str, fields: dict[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] not in fields:
            known = ", ".join(f"{{{field}}}" for field in fields)
            raise QueryError(f"there is no field {{{match[1]}}}", hint=f"the fields are {known}")
        return fields[match[1]]

    return FIELD.sub(value, text)


def _fields(gpu: Gpu, judged: JudgedGpu, facts: ContainerFacts) -> dict[str, str]:
    """Return facts under the names of `AMD_REQUIRE_*` and of templates in images; "" means unknown."""
    return {
        "number": str(gpu.number),
        "gfx": judged.target,
        "family": family_of(judged.target),
        "model": model_of(gpu),
        "vram": "" if judged.vram_mib is None else str(judged.vram_mib),
        "partition": "-".join(filter(None, (judged.compute_partition, judged.memory_partition))),
        "pci": str(gpu.pci_address),
        # The format of ROCR_VISIBLE_DEVICES.
        "uuid": f"GPU-{gpu.kfd_unique_id:016x}" if gpu.kfd_unique_id else "",
        "render": gpu.render_path,
        "driver": facts.driver,
        "rocm": facts.rocm[-1] if facts.rocm else "",
        "kernel": facts.kernel,
        "cpu": f"x86-64-v{facts.cpu_level}" if facts.cpu_level else "",
    }


def format_labels(gpus: Sequence[Gpu], facts: ContainerFacts) -> list[str]:
    """Return the labels that AMD's node labeller gives these GPUs, except those on which the GPUs differ."""
    labels = {
        "gpu.device-id": {f"{gpu.device_id:04x}" for gpu in gpus},
        # The labeller rounds to whole GiB.
        "gpu.vram": {f"{round((gpu.vram_bytes or 0) / GIBIBYTE)}G" for gpu in gpus},
        "gpu.cu-count": {str(gpu.cu_count) for gpu in gpus},
        "gpu.driver-version": {facts.driver} - {""},
        "compute-memory-partition": {
            f"{gpu.compute_partition}_{gpu.memory_partition}".lower() for gpu in gpus if gpu.compute_partition
        },
    }
    return [f"{PREFIX}{name}={value}" for name, values in labels.items() if len(values) == 1 for value in values]


def format_features(gpus: Sequence[Gpu], facts: ContainerFacts) -> list[str]:
    """Return a file for NFD's features.d: the labels of `swarm setup`, and a feature per target and ROCm."""
    features = build_labels(gpus, facts.driver)
    features |= {f"amd.gpu.gfx.{target}": "true" for target in sorted({gpu.gfx_target for gpu in gpus} - {""})}
    features |= {f"amd.gpu.rocm.{release}": "true" for release in facts.rocm}
    if facts.cpu_level:
        features["amd.gpu.cpu"] = f"x86-64-v{facts.cpu_level}"
    return [NO_LABELS, *(f"{name}={value}" for name, value in features.items())]
