"""All facts of a host as a document, and back: what checks judge elsewhere as they do here."""

from __future__ import annotations

from collections.abc import Mapping
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
from amd_gpu_tracker.records.lease import ProcessId
from amdgpu_discovery.driver_versions import DriverReleases
from amdgpu_discovery.gpu import DeviceNode, DeviceNumber, Gpu, PciAddress, UnnumberedGpu
from amdgpu_discovery.value import Value

PLAIN: dict[str, type] = {"int": int, "str": str, "bool": bool}
OR_NONE = " | None"
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


def parse_value(value_type: type[Value], fields: Any, types: Mapping[str, type[Value]]) -> Value:
    """Return the value that JSON's fields describe; ValueError. `types` are those that fields may have, by name.

    A field that the class does not know is of a later version, and left out.
    """
    annotations = _annotations(value_type)
    if not isinstance(fields, dict):
        raise ValueError(f"{value_type.__name__} is an object, not {fields!r:.80}")  # noqa: TRY004 - of JSON
    known = {name: _parse(annotations[name], field, types) for name, field in fields.items() if name in annotations}
    try:
        return value_type(**known)
    except TypeError as error:
        raise ValueError(str(error)) from error


def _annotations(value_type: type[Value]) -> dict[str, str]:
    found: dict[str, str] = {}
    for base in reversed(value_type.__mro__):
        found |= vars(base).get("__annotations__", {})
    return found


def _parse(annotation: str, field: Any, types: Mapping[str, type[Value]]) -> Any:
    if annotation.endswith(OR_NONE):
        return None if field is None else _parse(annotation.removesuffix(OR_NONE), field, types)
    name, _, inside = annotation.partition("[")
    if name == "tuple":
        item = inside.removesuffix(", ...]")
        return tuple(_parse(item, one, types) for one in _require(field, list, annotation))
    if name == "dict":
        key, item = inside.removesuffix("]").split(", ")
        pairs = _require(field, dict, annotation).items()
        return {PLAIN[key](one): _parse(item, other, types) for one, other in pairs}
    if name in types:
        return parse_value(types[name], field, types)
    return _require(field, PLAIN[name], annotation)


def _require(field: Any, wanted: type, annotation: str) -> Any:
    # True is an int to Python, and no number.
    if type(field) is not wanted:
        raise ValueError(f"{annotation} is expected, not {field!r:.80}")
    return field


def format_facts(facts: Facts, *, with_serials: bool) -> dict[str, Any]:
    """Return facts as JSON has them; the id of a hive of XGMI is a serial too, which no check asks."""
    gpus = facts.gpus.gpus if with_serials else tuple(gpu.replace(xgmi_hive=None) for gpu in facts.gpus.gpus)
    document: dict[str, Any] = format_value(facts.replace(gpus=facts.gpus.replace(gpus=gpus)))
    return document


def parse_facts(document: dict[str, Any]) -> Facts:
    """Return the facts of a document; ValueError for one that is none."""
    facts = parse_value(Facts, document, TYPES)
    assert isinstance(facts, Facts)  # noqa: S101 - for the type checker
    return facts
