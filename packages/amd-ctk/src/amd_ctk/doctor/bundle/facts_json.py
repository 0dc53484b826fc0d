"""All facts of a host as a document, and back: what checks judge elsewhere as they do here."""

from __future__ import annotations

from typing import Any

from amd_ctk.doctor.facts.all import Facts
from amd_ctk.doctor.facts.cdi import CdiFacts, SpecProblem
from amd_ctk.doctor.facts.containers import StaleContainer, UnstartedContainer
from amd_ctk.doctor.facts.docker import DockerFacts, Endpoint
from amd_ctk.doctor.facts.engine_files import EngineFileFacts
from amd_ctk.doctor.facts.gpus import GpuCondition, GpuFacts, NodeProblem
from amd_ctk.doctor.facts.inside import ImageFacts, InsideFacts
from amd_ctk.doctor.facts.kernel import KernelFacts
from amd_ctk.doctor.facts.packages import PackageFacts
from amd_ctk.doctor.facts.podman import PodmanFacts
from amd_ctk.doctor.facts.slurm import JobFacts, LeftContainer, SlurmFacts
from amd_ctk.doctor.facts.toolkit import ToolkitFacts
from amd_ctk.doctor.facts.users import User
from amd_ctk.doctor.inside.nodes import TriedNode
from amd_ctk.doctor.inside.process import ContainerProcess
from amd_ctk.slurm.status import NodeGpu, SlurmStatus
from amd_gpu_tracker import ProcessId
from amdgpu_discovery.driver_versions import DriverReleases
from amdgpu_discovery.gpu import DeviceNode, DeviceNumber, Gpu, PciAddress, UnnumberedGpu
from amdgpu_discovery.value import Value

# A container can have 100,000 mounts; checks look at the first of a list, or at all GPUs.
MOST_ITEMS = 1024
# Every class that a field of Facts may have, near or far.
TYPES: dict[str, type[Value]] = {
    value_type.__name__: value_type
    for value_type in (
        *(KernelFacts, GpuFacts, DockerFacts, CdiFacts, ToolkitFacts, PodmanFacts, EngineFileFacts, SlurmFacts),
        *(
            PackageFacts,
            StaleContainer,
            UnstartedContainer,
            InsideFacts,
            ImageFacts,
            NodeProblem,
            User,
            TriedNode,
            ContainerProcess,
        ),
        *(GpuCondition, SpecProblem, Endpoint, DriverReleases, JobFacts, LeftContainer),
        *(NodeGpu, SlurmStatus, ProcessId, DeviceNode, DeviceNumber, Gpu, PciAddress, UnnumberedGpu),
    )
}


def format_value(value: object) -> Any:
    """Return what JSON has for a value, a list of them, or anything plain."""
    if isinstance(value, Value):
        return {name: format_value(field) for name, field in value.as_dict().items()}
    if isinstance(value, tuple):
        return [format_value(item) for item in value[:MOST_ITEMS]]
    if isinstance(value, dict):
        return {str(name): format_value(item) for name, item in value.items()}
    return value


def format_facts(facts: Facts, *, with_serials: bool) -> dict[str, Any]:
    """Return facts as JSON has them; the id of a hive of XGMI is a serial too, which no check asks."""
    gpus = facts.gpus.gpus if with_serials else tuple(gpu.replace(xgmi_hive=None) for gpu in facts.gpus.gpus)
    document: dict[str, Any] = format_value(facts.replace(gpus=facts.gpus.replace(gpus=gpus)))
    return document


def parse_facts(document: dict[str, Any]) -> Facts:
    """Return the facts of a document; ValueError for one that is none."""
    return Facts.from_json(document, TYPES)
