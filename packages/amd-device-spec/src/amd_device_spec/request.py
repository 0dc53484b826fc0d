"""What a container asks for: the environment of its OCI spec, read as docs/reference/requests.md says.

`AMD_VISIBLE_DEVICES` is the user's word; `DOCKER_RESOURCE_<KIND>` is Swarm's, which sets it for every generic resource
of a task: the names of GPUs, or an amount of VRAM. Where Swarm has chosen GPUs its choice alone counts, because an
image that carries `AMD_VISIBLE_DEVICES=all` must not undo the scheduler's work.
"""

from __future__ import annotations

from amd_device_spec.errors import SpecError
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.selection import asks_for_nothing, names_numbers, resolve
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from amd_device_spec.swarm_request import VramRequest
    from amdgpu_discovery.location import GpuLocation

VISIBLE_DEVICES = "AMD_VISIBLE_DEVICES"
SWARM_PREFIX = "DOCKER_RESOURCE_"
# As `amd-ctk swarm setup --vram` calls it, and as nodes are set up by hand.
VRAM_KIND = "VRAM"


class GpuRequest(Value):
    """What the environment says: the last AMD_VISIBLE_DEVICES, and Swarm's resources by kind."""

    # None where the variable is not set, "" where it is empty.
    visible: str | None
    resources: dict[str, str]

    @property
    def asks_for_nothing(self) -> bool:
        """Return whether this is settled without a look at the host."""
        return not self.resources and (self.visible is None or asks_for_nothing(self.visible))

    @property
    def by_user(self) -> dict[str, str]:
        """Return the user's own variable by its name, {} where it is not set."""
        return {} if self.visible is None else {VISIBLE_DEVICES: self.visible}

    @property
    def names_identities(self) -> bool:
        """Return whether any of this may name a GPU by its id or address, so that numbers alone do not settle it."""
        return not all(names_numbers(text) for text in (self.visible or "", *self.resources.values()))

    def needs_gpus(self, swarm_kinds: Sequence[str]) -> bool:
        """Return whether a host without GPUs cannot meet this; ids of another kind may be those of other devices."""
        asks = self.visible is not None and not asks_for_nothing(self.visible)
        return asks or any(kind in swarm_kinds for kind in self.resources)


class Grant(Value):
    """What a request comes to on this host: its GPUs, and a sentence for the log about each thing that was ignored."""

    gpus: tuple[GpuLocation, ...]
    notes: tuple[str, ...] = ()
    # The resource kinds by which Swarm chose.
    kinds: tuple[str, ...] = ()
    # Memory of a GPU that is yet to be chosen, by whoever knows what is reserved; then there are no `gpus`.
    vram: VramRequest | None = None


def requested_gpus(spec: dict[str, Any], swarm_kinds: Sequence[str]) -> GpuRequest | None:
    """Return what the container asks for, None where its environment says nothing about GPUs.

    `swarm_kinds` are the resource kinds that concern GPUs. SpecError where the environment is not a list of strings.
    """
    visible: str | None = None
    resources: dict[str, str] = {}
    for name, value in _variables(spec):
        if name == VISIBLE_DEVICES:
            visible = value
        elif name.startswith(SWARM_PREFIX):
            resources[name.removeprefix(SWARM_PREFIX)] = value
    # What a kind that is not ours counts or names (licences, FPGAs) needs no look at the host: it may have no GPU.
    ours = (*swarm_kinds, VRAM_KIND)
    relevant = {kind: value for kind, value in resources.items() if kind in ours or _are_identities(value)}
    if visible is None and not relevant:
        return None
    return GpuRequest(visible=visible, resources=relevant)


def grant(
    request: GpuRequest,
    gpus: Sequence[GpuLocation],
    *,
    swarm_kinds: Sequence[str],
    vram_kinds: Sequence[str] = (),
    ignore_unknown: bool = False,
) -> Grant:
    """Decide which GPUs of a host a request gets; RequestError where it cannot be met as it is written.

    With `ignore_unknown` what cannot be met is left out and noted instead.
    """
    if not request.resources:
        return grant_named(request.by_user, gpus, ignore_unknown=ignore_unknown)
    from amd_device_spec.swarm_request import grant_scheduled

    return grant_scheduled(request, gpus, swarm_kinds=swarm_kinds, vram_kinds=vram_kinds, ignore_unknown=ignore_unknown)


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


def is_privileged(spec: dict[str, Any]) -> bool:
    """Return whether a container holds CAP_SYS_ADMIN, as `docker run --privileged` gives it."""
    capabilities = spec.get("process", {}).get("capabilities")
    bounding = capabilities.get("bounding") if isinstance(capabilities, dict) else None
    return isinstance(bounding, list) and "CAP_SYS_ADMIN" in bounding


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


def _are_identities(value: str) -> bool:
    # Only tasks of a Swarm have resources.
    from amdgpu_discovery.identities import is_identity

    return all(is_identity(item) for item in value.split(","))


def grant_named(asked: dict[str, str], gpus: Sequence[GpuLocation], *, ignore_unknown: bool) -> Grant:
    """Grant what variables of the environment name. Errors as `grant`."""
    chosen: dict[int, GpuLocation] = {}
    notes: list[str] = []
    for variable, value in asked.items():
        try:
            resolution = resolve(gpus, value)
        except RequestError as error:
            raise _with_variable(variable, value, error) from error
        problems = [_with_variable(variable, value, error) for error in resolution.problems]
        if problems and not ignore_unknown:
            raise problems[0]
        notes += [problem.message for problem in problems]
        _refuse_twice(variable, asked, resolution.gpus, chosen)
        chosen.update((gpu.number, gpu) for gpu in resolution.gpus)
    return Grant(gpus=tuple(chosen[number] for number in sorted(chosen)), notes=tuple(notes))


def _with_variable(variable: str, value: str, error: RequestError) -> RequestError:
    from amdgpu_discovery.unknown_gpus import shown

    return RequestError(f"{variable}={shown(value)}: {error.message}", hint=error.hint)


def _refuse_twice(
    variable: str, asked: dict[str, str], named: Sequence[GpuLocation], chosen: dict[int, GpuLocation]
) -> None:
    """Refuse a GPU that Swarm has counted twice: the task was promised more than there would be."""
    twice = next((gpu.number for gpu in named if gpu.number in chosen), None)
    if twice is not None:
        others = " and ".join(other for other in asked if other != variable)
        raise RequestError(
            f"{others} and {variable} both name GPU {twice}, which is there once",
            hint="reserve resources of one kind in a service, or name every GPU in one kind only",
        )
