"""The description of a node's GPUs for a swarm.

Generic resources name GPUs and count VRAM, each written KIND=VALUE. Labels describe the node's GPUs, for `--constraint
node.labels.amd.gpu.model==MI210`.
"""

from __future__ import annotations

import os
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence

from amdgpu_discovery.choices.selection import BY_UUID, is_identity, select_gpus
from amdgpu_discovery.errors import RequestError, ToolkitError
from amdgpu_discovery.gpu import MEBIBYTE, Gpu
from amdgpu_discovery.host import Host
from amdgpu_discovery.tables.driver_versions import DRIVER_VERSION
from amdgpu_discovery.tables.models import model_of
from amdgpu_discovery.value import Value

KIND_CHARACTERS = frozenset(string.ascii_letters + string.digits + "_-.")
# Prefix of labels.
PREFIX = "amd.gpu."
NAMES = ("model", "gfx", "count", "vram-mb", "driver")


class SwarmError(ToolkitError):
    """A node cannot advertise its GPUs as requested, or a docker command fails."""


class ResourcePlan(Value):
    """What to advertise: GPUs as `kind`, named by uuid or pci; also by model; VRAM as `vram_kind`, "" for none.

    `vram_mib` is the advertised VRAM, 0 for all. `headroom_mib` of a task's memory is not part of its fraction.
    """

    kind: str = "AMD_GPU"
    by: str = BY_UUID
    also_by_model: bool = False
    vram_kind: str = ""
    vram_mib: int = 0
    headroom_mib: int = 0


class Resource(Value):
    """One entry of `node-generic-resources`."""

    kind: str
    value: str

    def __str__(self) -> str:
        return f"{self.kind}={self.value}"

    @property
    def amount(self) -> int | None:
        """Return the amount of a counted resource, None for a named one."""
        return int(self.value) if self.value.isascii() and self.value.isdecimal() else None


def parse_resource(text: str) -> Resource:
    """Parse `KIND=VALUE`."""
    kind, _, value = text.partition("=")
    return Resource(kind=kind.strip(), value=value.strip())


def build_resources(gpus: Sequence[Gpu], plan: ResourcePlan) -> list[Resource]:
    """Return what a node with these GPUs advertises; SwarmError for a GPU without a name or an invalid kind."""
    names = [_name_of(gpus, gpu, plan.by) for gpu in gpus]
    resources = [Resource(kind=plan.kind, value=name) for name in names]
    if plan.also_by_model:
        resources += [Resource(kind=model_of(gpu), value=name) for gpu, name in zip(gpus, names, strict=True)]
    if plan.vram_kind:
        _require_room(gpus, plan.headroom_mib)
        amount = _budget(sum(vram_mb_of(gpu) for gpu in gpus), plan.vram_mib)
        resources.append(Resource(kind=plan.vram_kind, value=str(amount)))
    _check_kinds(plan, {resource.kind for resource in resources})
    return resources


def vram_mb_of(gpu: Gpu) -> int:
    """Return the memory of a GPU in whole MiB, like amd-smi; 0 if unknown."""
    return (gpu.vram_bytes or 0) // MEBIBYTE


def gpus_named_by(resource: Resource, gpus: Sequence[Gpu]) -> list[int]:
    """Return the numbers of the GPUs that a resource names, [] if it names none of them."""
    if not is_identity(resource.value):
        return []
    try:
        return [gpu.number for gpu in select_gpus(gpus, resource.value)]
    except RequestError:
        return []


def shared_gpus(resources: Sequence[Resource], gpus: Sequence[Gpu]) -> Iterator[tuple[int, list[Resource]]]:
    """Yield GPUs that several resources name, with these resources: Swarm would give such a GPU out twice."""
    named_by: dict[int, list[Resource]] = {}
    for resource in resources:
        for number in gpus_named_by(resource, gpus):
            named_by.setdefault(number, []).append(resource)
    return ((number, naming) for number, naming in sorted(named_by.items()) if len(naming) > 1)


def read_driver(host: Host) -> str:
    """Return the version of the amdgpu driver, the kernel's release for its built-in driver, "" if unknown."""
    return host.read_attribute(DRIVER_VERSION) or (os.uname().release if host.is_this_machine else "")


def read_node_name(host: Host) -> str:
    """Return the most likely name of this node in the swarm: Docker uses the host name."""
    simulated = "" if host.is_this_machine else host.read_attribute("/etc/hostname")
    return simulated or os.uname().nodename


def build_labels(gpus: Sequence[Gpu], driver: str) -> dict[str, str]:
    """Return the labels of a node with these GPUs. Values that differ between GPUs are joined with "+"."""
    labels = {
        "model": _join(model_of(gpu) for gpu in gpus),
        "gfx": _join(gpu.gfx_target for gpu in gpus),
        "count": str(len(gpus)),
        "vram-mb": _join(str(vram_mb_of(gpu)) for gpu in gpus),
        "driver": driver,
    }
    return {f"{PREFIX}{name}": value for name, value in labels.items() if value}


def label_command(labels: Mapping[str, str], node: str) -> list[str]:
    """Return the command that labels a node; it must run on a manager."""
    options = [word for name, value in labels.items() for word in ("--label-add", f"{name}={value}")]
    return ["docker", "node", "update", *options, node]


def unlabel_command(node: str) -> list[str]:
    """Return the command that removes the labels of `label_command`; it must run on a manager."""
    options = [word for name in NAMES for word in ("--label-rm", f"{PREFIX}{name}")]
    return ["docker", "node", "update", *options, node]


def constraint_for(targets: Sequence[str], chosen: str) -> str:
    """Return the constraint for an image's target; SwarmError if it has several and none is chosen."""
    if chosen and targets and chosen not in targets:
        raise SwarmError(f"the image has no code for {chosen}, it has code for {' '.join(targets)}")
    if not (chosen or targets):
        raise SwarmError("the image names no target of a GPU", hint="name one with --gfx, or look deeper with --deep")
    if not chosen and len(targets) > 1:
        # Docker combines constraints with "and", and compares only with == and !=.
        raise SwarmError(
            f"the image has code for {' '.join(targets)}, and a constraint names one label",
            hint="choose one with --gfx",
        )
    return f"node.labels.{PREFIX}gfx=={chosen or targets[0]}"


def _require_room(gpus: Sequence[Gpu], headroom_mib: int) -> None:
    largest = max(map(vram_mb_of, gpus), default=0)
    if headroom_mib and headroom_mib >= largest:
        raise SwarmError(f"a headroom of {headroom_mib} MiB leaves nothing: the largest GPU has {largest} MiB")


def _budget(total_mib: int, requested_mib: int) -> int:
    if requested_mib > total_mib:
        raise SwarmError(f"the GPUs have {total_mib} MiB, less than the budget of {requested_mib} MiB")
    return requested_mib or total_mib


def _name_of(gpus: Sequence[Gpu], gpu: Gpu, by: str) -> str:
    """Return a name that only this GPU or partition has."""
    if by == BY_UUID and not gpu.unique_id:
        raise SwarmError(f"GPU {gpu.number} has no unique id to be named by", hint="name the GPUs by address: --by pci")
    name = f"0x{gpu.unique_id:X}" if by == BY_UUID else str(gpu.pci_address)
    return name if list(select_gpus(gpus, name)) == [gpu] else f"{name}:p{gpu.partition_rank}"


def _check_kinds(plan: ResourcePlan, kinds: set[str]) -> None:
    for kind in sorted(kinds):
        if not kind or not kind[0].isalpha() or not set(kind) <= KIND_CHARACTERS:
            raise SwarmError(f"{kind!r} is not a valid resource kind", hint="use letters, digits and _, as in AMD_GPU")
    if plan.vram_kind in kinds - {plan.vram_kind} or plan.vram_kind == plan.kind:
        raise SwarmError(f"{plan.kind} cannot name GPUs and count VRAM at once", hint="choose another with --vram=KIND")


def _join(values: Iterable[str]) -> str:
    # A constraint cannot compare with a value that contains a comma.
    return "+".join(dict.fromkeys(values))
