"""All engines by name."""

from __future__ import annotations

from amd_ctk.engines.containerd import CONTAINERD
from amd_ctk.engines.crio import CRIO
from amd_ctk.engines.docker import DOCKER
from amd_ctk.engines.podman import PODMAN
from amd_ctk.engines.slurm import SLURM

ENGINES = {engine.name: engine for engine in (DOCKER, PODMAN, CONTAINERD, CRIO, SLURM)}
