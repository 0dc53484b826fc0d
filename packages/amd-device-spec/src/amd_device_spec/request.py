"""What a container asks for and what it is granted.

Requests are read from the environment of an OCI spec, as docs/reference/requests.md says.
`AMD_VISIBLE_DEVICES` is the user's request. Docker Swarm sets `DOCKER_RESOURCE_<KIND>` for each generic resource of a
task. An image can set both, and nothing in a spec tells who did, so a resource is read only if this node advertises its
kind (docs/decisions/0003-swarm-has-the-last-word.md).
"""

from __future__ import annotations

from amdgpu_discovery.errors import RequestError, SpecError
from amdgpu_discovery.oci_spec import holds_sys_admin
from amdgpu_discovery.selection import asks_for_nothing, is_identity, names_numbers
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from amd_device_spec.settings import Settings
    from amd_device_spec.slurm_job import Job
    from amdgpu_discovery.choices.grammar import Choice
    from amdgpu_discovery.gpu import Gpu, GpuLocation, UnnumberedGpu

VISIBLE_DEVICES = "AMD_VISIBLE_DEVICES"
SLURM_PREFIX = "SLURM"
SWARM_PREFIX = "DOCKER_RESOURCE_"
# As `amd-ctk swarm setup --vram` calls it, and as nodes are set up by hand.
VRAM_KIND = "VRAM"

# How many resources of kinds that this node does not advertise are looked at; an image can set any number of them.
MOST_UNADVERTISED = 8
# Longer than any unique id or PCI address.
LONGEST_NAME = 64


class VramRequest(Value):
    """MiB of the memory of one GPU, which Swarm has taken from the node's pool of a `kind`."""

    kind: str
    mib: int

    def __str__(self) -> str:
        """Return it as it stands in the environment."""
        return f"{SWARM_PREFIX}{self.kind}={self.mib}"


class GpuRequest(Value):
    """What the environment of a container asks for.

    Attributes:
        visible: The last `AMD_VISIBLE_DEVICES`; None where it is not set, "" where it is empty.
        resources: Swarm's resources of the kinds that this node advertises by its settings: what was chosen, by kind.
        unadvertised: Kind and first item of resources of other kinds that may be GPUs of this host or their memory;
            never granted.
        job: The job of Slurm that the container belongs to, which limits all of these; None if there is none.
    """

    visible: str | None
    resources: dict[str, str]
    unadvertised: tuple[tuple[str, str], ...] = ()
    job: Job | None = None

    @property
    def asks_for_nothing(self) -> bool:
        """Return whether no GPU is wanted: `none` in AMD_VISIBLE_DEVICES beats every resource."""
        if self.visible is None:
            return not (self.resources or self.unadvertised or (self.job and self.job.gpus))
        return asks_for_nothing(self.visible)

    @property
    def needs_gpus(self) -> bool:
        """Return whether a host without GPUs cannot meet this; resources of other kinds may be other devices."""
        return not self.asks_for_nothing and self.is_named

    @property
    def is_named(self) -> bool:
        """Return whether the user or Swarm names GPUs, which have to be given then."""
        return self.visible is not None or bool(self.resources)

    @property
    def names_identities(self) -> bool:
        """Return whether any of this may name a GPU by its id or address, so that numbers alone do not settle it."""
        return bool(self.resources or self.unadvertised) or not names_numbers(self.visible or "")


class Grant(Value):
    """What a request gets on this host.

    Attributes:
        gpus: The GPUs, by number.
        notes: A sentence for the log about each thing that was ignored.
        kinds: The resource kinds by which Swarm chose.
        vram: Memory of a GPU (in MiB) that the GPU Tracker has yet to choose; then there are no `gpus`.
        choice: What was asked for, where the request said that and named no GPUs.
        candidates: The GPUs among which the GPU Tracker has yet to choose; then there are no `gpus`.
    """

    gpus: tuple[GpuLocation, ...]
    notes: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    vram: VramRequest | None = None
    choice: Choice | None = None
    candidates: tuple[Gpu, ...] = ()


class Node(Value):
    """What a request is held against: the GPUs, the administrator's settings, and what finds out more about GPUs."""

    gpus: Sequence[GpuLocation]
    settings: Settings
    unnumbered: Callable[[], Sequence[UnnumberedGpu]]
    described: Callable[[], Sequence[Gpu]]


def requested_gpus(spec: dict[str, Any], settings: Settings) -> GpuRequest | None:
    """Return what the container of an OCI `spec` asks for, None where its environment says nothing about GPUs.

    SpecError where the environment is not a list of strings.
    """
    visible: str | None = None
    resources: dict[str, str] = {}
    of_slurm: dict[str, str] = {}
    for name, value in _variables(spec):
        if name == VISIBLE_DEVICES:
            visible = value
        elif name.startswith(SWARM_PREFIX):
            resources[name.removeprefix(SWARM_PREFIX)] = value
        elif name.startswith(SLURM_PREFIX):
            of_slurm[name] = value
    if visible is None and not resources and not of_slurm:
        return None
    request = GpuRequest(visible=visible, resources=_advertised(resources, settings), job=_job(of_slurm))
    if resources:
        request = request.replace(unadvertised=_unadvertised(resources, settings))
    return None if visible is None and request.asks_for_nothing else request


def keep_last_request(spec: dict[str, Any]) -> bool:
    """Leave one AMD_VISIBLE_DEVICES in the environment, the last; return whether there were more.

    `docker run --gpus` appends its own to the user's, and what a process then finds depends on its libc.
    """
    environment = spec.get("process", {}).get("env") or []
    places = [place for place, entry in enumerate(environment) if entry.partition("=")[0] == VISIBLE_DEVICES]
    superseded = set(places[:-1])
    if superseded:
        environment[:] = [entry for place, entry in enumerate(environment) if place not in superseded]
    return bool(superseded)


def name_chosen_gpus(spec: dict[str, Any], gpus: Iterable[GpuLocation]) -> bool:
    """Tell a container which GPUs were chosen for it, where its environment says what it needs; return True."""
    environment = spec["process"]["env"]
    place = next(place for place, entry in enumerate(environment) if entry.partition("=")[0] == VISIBLE_DEVICES)
    environment[place] = f"{VISIBLE_DEVICES}={','.join(str(gpu.number) for gpu in gpus)}"
    return True


def is_permitted(spec: dict[str, Any], settings: Settings) -> bool:
    """Return whether this host lets a container ask by its environment."""
    policy = settings.visible_devices_env
    return policy == "always" or (policy == "privileged" and holds_sys_admin(spec))


def is_amount(value: str) -> bool:
    """Return whether a resource is counted: Swarm hands out words or integers, and an integer never is a name."""
    return value.isascii() and value.isdecimal()


def with_variable(variable: str, value: str, error: RequestError) -> RequestError:
    """Return the error for the value of a variable."""
    from amdgpu_discovery.unknown_gpus import shown

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
    """Return what may have been meant for GPUs; licences, disks and FPGAs are not, and need no look at the host."""
    kinds = (*settings.swarm_resources, *settings.swarm_vram_resources)
    found: list[tuple[str, str]] = []
    for kind, value in resources.items():
        if len(found) == MOST_UNADVERTISED:
            break
        first = value[: LONGEST_NAME + 1].partition(",")[0]
        if kind not in kinds and (is_identity(first) or (kind == VRAM_KIND and is_amount(value))):
            found.append((kind, first))
    return tuple(found)
