"""Facts about a host for a cluster: AMD's labels of nodes, and local features of Node Feature Discovery."""

from __future__ import annotations

from amd_ctk.swarm.labels import build_labels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amdgpu_discovery.gpu import Gpu
    from amdgpu_discovery.requirements.facts import ContainerFacts

# ROCm/k8s-device-plugin, cmd/k8s-node-labeller: what it calls its labels.
PREFIX = "amd.com/"
GIBIBYTE = 2**30
# Node Feature Discovery, "Local feature source": features only, for its image compatibility; no labels of the node.
NO_LABELS = "# +no-label"


def format_labels(gpus: Sequence[Gpu], facts: ContainerFacts) -> list[str]:
    """Return the labels that AMD's node labeller has for these GPUs; one on which they differ is left out."""
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
    """Return a file for NFD's features.d: the labels that `swarm setup` gives, and a feature for each target."""
    features = build_labels(gpus, facts.driver)
    features |= {f"amd.gpu.gfx.{target}": "true" for target in sorted({gpu.gfx_target for gpu in gpus} - {""})}
    features |= {f"amd.gpu.rocm.{release}": "true" for release in facts.rocm}
    if facts.cpu_level:
        features["amd.gpu.cpu"] = f"x86-64-v{facts.cpu_level}"
    return [NO_LABELS, *(f"{name}={value}" for name, value in features.items())]
