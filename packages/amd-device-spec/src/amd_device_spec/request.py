"""What a container asks for, and what it is granted.

Requests come from the environment of an OCI spec; docs/reference/requests.md describes them. `AMD_VISIBLE_DEVICES` is
the user's request. Docker Swarm sets `DOCKER_RESOURCE_<KIND>` for each generic resource of a task. An image can set
both, and a spec does not show who set them. So a resource is read only if this node advertises its kind
(docs/decisions/0003-swarm-has-the-last-word.md).
"""

from __future__ import annotations

from amdgpu_discovery.choices.oci_spec import holds_sys_admin
from amdgpu_discovery.choices.selection import asks_for_nothing, is_identity, names_numbers
from amdgpu_discovery.errors import RequestError, SpecError
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from amd_device_spec.settings import Settings
    from amd_device_spec.slurm_job import Job
    from amdgpu_discovery.gpu import Gpu, GpuLocation, UnnumberedGpu

VISIBLE_DEVICES = "AMD_VISIBLE_DEVICES"
# How much memory of each of its GPUs a container may use, as in 8GiB.
MEMORY = "AMD_VRAM"
SLURM_PREFIX = "SLURM"
SWARM_PREFIX = "DOCKER_RESOURCE_"
# The name that `amd-ctk swarm setup --vram` uses, and so do nodes that were set up by hand.
VRAM_KIND = "VRAM"

# An image can set any number of resources of kinds that this node does not advertise. No more than this are examined.
MOST_UNADVERTISED = 8
# Longer than any unique id or PCI address.
LONGEST_GPU_NAME = 64


class GpuRequest(Value):
    """The request in the environment of a container.

    Attributes:
        visible: The last `AMD_VISIBLE_DEVICES`; None if it is not set, "" if it is empty.
        resources: Swarm's resources of the kinds that this node advertises by its settings: the choice by kind.
        unadvertised: Kind and first item of resources of other kinds that may be GPUs of this host or their memory;
            never granted.
        job: The Slurm job of the container, which limits all of these; None if there is none.
        memory: The last `AMD_VRAM`; None if it is not set or empty.
    """

    visible: str | None
    resources: dict[str, str]
    unadvertised: tuple[tuple[str, str], ...] = ()
    job: Job | None = None
    memory: str | None = None

    @property
    def asks_for_nothing(self) -> bool:
        """Return whether the container wants no GPU; `none` in AMD_VISIBLE_DEVICES overrides every resource."""
        if self.visible is None:
            return not (self.resources or self.unadvertised or (self.job and self.job.gpus))
        return asks_for_nothing(self.visible)

    @property
    def needs_gpus(self) -> bool:
        """Return whether a host without GPUs cannot meet the request; resources of other kinds may be other devices."""
        return not self.asks_for_nothing and self.is_named

    @property
    def is_named(self) -> bool:
        """Return whether the user or Swarm asks for GPUs, so that the container must get them."""
        return self.visible is not None or bool(self.resources)

    @property
    def names_identities(self) -> bool:
        """Return whether the request may name a GPU by its id or address, so that numbers alone are not enough."""
        return bool(self.resources or self.unadvertised) or not names_numbers(self.visible or "")


class LimitedMemory(Value):
    """What became of a limit on the memory of a container's GPUs.

    Attributes:
        mib: The limit for each GPU, which the container is told; 0 for none.
        total_mib: The memory of each GPU; 0 if they differ.
        is_enforced: Whether the spec has a limit that the kernel enforces.
        notes: Sentences for the log.
    """

    mib: int = 0
    total_mib: int = 0
    is_enforced: bool = False
    notes: tuple[str, ...] = ()


NOT_LIMITED = LimitedMemory()


class Node(Value):
    """What requests are compared with: GPUs, the administrator's settings, and functions that find more about GPUs."""

    gpus: Sequence[GpuLocation]
    settings: Settings
    unnumbered: Callable[[], Sequence[UnnumberedGpu]]
    described: Callable[[], Sequence[Gpu]]


def requested_gpus(spec: dict[str, Any], settings: Settings) -> GpuRequest | None:
    """Return the request of the container of an OCI `spec`; None if its environment does not mention GPUs.

    Raises SpecError if the environment is not a list of strings.
    """
    visible: str | None = None
    memory: str | None = None
    resources: dict[str, str] = {}
    of_slurm: dict[str, str] = {}
    for name, value in _variables(spec):
        if name == VISIBLE_DEVICES:
            visible = value
        elif name.startswith(SWARM_PREFIX):
            resources[name.removeprefix(SWARM_PREFIX)] = value
        elif name.startswith(SLURM_PREFIX):
            of_slurm[name] = value
        elif name == MEMORY:
            memory = value or None
    if visible is None and not resources and not of_slurm and memory is None:
        return None
    request = GpuRequest(visible=visible, resources=_advertised(resources, settings), job=_job(of_slurm), memory=memory)
    if resources:
        request = request.replace(unadvertised=_unadvertised(resources, settings))
    return None if visible is None and memory is None and request.asks_for_nothing else request


def keep_last_request(spec: dict[str, Any]) -> bool:
    """Keep only the last AMD_VISIBLE_DEVICES in the environment; return whether there were more.

    `docker run --gpus` appends its own after the user's. Which one a process finds depends on its libc.
    """
    environment = spec.get("process", {}).get("env") or []
    places = [place for place, entry in enumerate(environment) if entry.partition("=")[0] == VISIBLE_DEVICES]
    superseded = set(places[:-1])
    if superseded:
        environment[:] = [entry for place, entry in enumerate(environment) if place not in superseded]
    return bool(superseded)


def name_chosen_gpus(spec: dict[str, Any], gpus: Iterable[GpuLocation]) -> bool:
    """Replace the choice in a container's environment by the numbers of the chosen GPUs; return True."""
    environment = spec["process"]["env"]
    place = next(place for place, entry in enumerate(environment) if entry.partition("=")[0] == VISIBLE_DEVICES)
    environment[place] = f"{VISIBLE_DEVICES}={','.join(str(gpu.number) for gpu in gpus)}"
    return True


def is_permitted(spec: dict[str, Any], settings: Settings) -> bool:
    """Return whether this host accepts requests from the container's environment."""
    policy = settings.visible_devices_env
    return policy == "always" or (policy == "privileged" and holds_sys_admin(spec))


def is_amount(value: str) -> bool:
    """Return whether a resource is an amount: Swarm assigns words or integers, and an integer is never a name."""
    return value.isascii() and value.isdecimal()


def with_variable(variable: str, value: str, error: RequestError) -> RequestError:
    """Return the error with the variable and its value in front of the message."""
    from amdgpu_discovery.choices.unknown_gpus import shown

    named = RequestError(f"{variable}={shown(value)}: {error.message}", hint=error.hint)
    named.variable = variable
    named.names_hidden = error.names_hidden
    return named


def _variables(spec: dict[str, Any]) -> Iterator[tuple[str, str]]:
    process = spec.get("process", {})
    if not isinstance(process, dict):
        raise SpecError("its 'process' is not an object")
    environment = process.get("env") or []
    if not isinstance(environment, list):
        raise SpecError("its 'process.env' is not a list")
    for position, entry in enumerate(environment):
        if not isinstance(entry, str):
            raise SpecError(f"entry {position} of its 'process.env' is not a string")
        name, _, value = entry.partition("=")
        yield name, value


def _job(variables: dict[str, str]) -> Job | None:
    if not variables:
        return None
    # Few containers are started by Slurm.
    from amd_device_spec.slurm_job import parse_job

    return parse_job(variables)


def _advertised(resources: dict[str, str], settings: Settings) -> dict[str, str]:
    named = {
        kind: resources[kind]
        for kind in settings.swarm_resources
        if kind in resources and not asks_for_nothing(resources[kind])
    }
    return named | {kind: resources[kind] for kind in settings.swarm_vram_resources if kind in resources}


def _unadvertised(resources: dict[str, str], settings: Settings) -> tuple[tuple[str, str], ...]:
    """Return the resources that may mean GPUs. Licences, disks and FPGAs do not, and need no look at the host."""
    kinds = (*settings.swarm_resources, *settings.swarm_vram_resources)
    found: list[tuple[str, str]] = []
    for kind, value in resources.items():
        if len(found) == MOST_UNADVERTISED:
            break
        first = value[: LONGEST_GPU_NAME + 1].partition(",")[0]
        if kind not in kinds and (is_identity(first) or (kind == VRAM_KIND and is_amount(value))):
            found.append((kind, first))
    return tuple(found)
