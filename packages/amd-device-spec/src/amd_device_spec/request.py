"""What a container asks for: the environment of its OCI spec, read as docs/reference/requests.md says.

`AMD_VISIBLE_DEVICES` is the user's word; `DOCKER_RESOURCE_<KIND>` is Swarm's, which sets it for every generic resource
of a task: the names of GPUs, or an amount of VRAM. Where Swarm has chosen GPUs its choice alone counts, because an
image that carries `AMD_VISIBLE_DEVICES=all` must not undo the scheduler's work.
"""

from __future__ import annotations

from amd_device_spec.errors import SpecError
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.selection import CHARACTERS_SHOWN, asks_for_nothing, is_identity, resolve
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.selection import Resolution

VISIBLE_DEVICES = "AMD_VISIBLE_DEVICES"
SWARM_PREFIX = "DOCKER_RESOURCE_"
# Swarm's amounts are 64-bit integers.
LONGEST_AMOUNT = 19


class GpuRequest(Value):
    """What the environment says: the last AMD_VISIBLE_DEVICES, and Swarm's resources by kind."""

    # None where the variable is not set, "" where it is empty.
    visible: str | None
    resources: dict[str, str]

    @property
    def asks_for_nothing(self) -> bool:
        """Return whether this is settled without a look at the host."""
        return not self.resources and (self.visible is None or asks_for_nothing(self.visible))

    def needs_gpus(self, swarm_kinds: Sequence[str]) -> bool:
        """Return whether a host without GPUs cannot meet this; ids of another kind may be those of other devices."""
        asks = self.visible is not None and not asks_for_nothing(self.visible)
        return asks or any(kind in swarm_kinds for kind in self.resources)


class VramRequest(Value):
    """Megabytes (2^20 bytes) of the memory of one GPU, which Swarm has taken from the node's pool of a `kind`."""

    kind: str
    megabytes: int

    def __str__(self) -> str:
        """Return it as it stands in the environment."""
        return f"{SWARM_PREFIX}{self.kind}={self.megabytes}"


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
    relevant = {kind: value for kind, value in resources.items() if kind in swarm_kinds or _are_identities(value)}
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
    vram = _vram(request.resources, vram_kinds)
    named = {kind: value for kind, value in request.resources.items() if kind not in vram_kinds}
    scheduled = dict(_scheduled(named, gpus, swarm_kinds))
    if not scheduled and not vram:
        asked = {} if request.visible is None else {VISIBLE_DEVICES: request.visible}
        return _grant_all(asked, gpus, ignore_unknown=ignore_unknown)
    if scheduled and vram:
        raise RequestError(
            f"{vram} is memory of a shared GPU and {' and '.join(scheduled)} names whole ones",
            hint="reserve one or the other in a service",
        )
    granted = _grant_all(scheduled, gpus, ignore_unknown=ignore_unknown)
    variables = [f"{SWARM_PREFIX}{vram.kind}"] if vram else list(scheduled)
    kinds = tuple(variable.removeprefix(SWARM_PREFIX) for variable in variables)
    granted = granted.replace(kinds=kinds, vram=vram)
    if request.visible is None:
        return granted
    reason = f"{' and '.join(variables)} {'reserves memory' if vram else 'names GPUs'}"
    note = f"{VISIBLE_DEVICES}={_shown(request.visible)} is ignored because {reason}"
    return granted.replace(notes=(*granted.notes, note))


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


def _is_amount(value: str) -> bool:
    """Return whether a resource is counted: Swarm hands out words or integers, and an integer never is a name."""
    return value.isascii() and value.isdecimal()


def _scheduled(
    resources: dict[str, str], gpus: Sequence[GpuLocation], swarm_kinds: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield the variables of Swarm that name GPUs: of a kind of ours, or with nothing but ids of this host."""
    for kind, value in sorted(resources.items()):
        if kind in swarm_kinds:
            _refuse_amount(kind, value)
            if not asks_for_nothing(value):
                yield SWARM_PREFIX + kind, value
        elif _are_gpus(value, gpus):
            yield SWARM_PREFIX + kind, value


def _vram(resources: dict[str, str], vram_kinds: Sequence[str]) -> VramRequest | None:
    """Return the amount of memory that Swarm gave, None for none; RequestError where it is no amount of one kind."""
    given = {kind: resources[kind] for kind in sorted(resources) if kind in vram_kinds}
    if len(given) > 1:
        raise RequestError(
            f"{' and '.join(SWARM_PREFIX + kind for kind in given)} each reserve memory of a GPU",
            hint="reserve one of them in a service",
        )
    for kind, value in given.items():
        if not _is_amount(value) or len(value) > LONGEST_AMOUNT or not int(value):
            raise RequestError(
                f"{SWARM_PREFIX}{kind}={_shown(value)} is not a number of megabytes",
                hint=f"write one number in node-generic-resources of the docker daemon: {kind}=65520",
            )
        return VramRequest(kind=kind, megabytes=int(value))
    return None


def _refuse_amount(kind: str, value: str) -> None:
    if any(_is_amount(item.strip()) for item in value.split(",")):
        raise RequestError(
            f"{SWARM_PREFIX}{kind}={_shown(value)} is an amount and names no GPU",
            hint=f"give every GPU its name in node-generic-resources of the docker daemon: {kind}=0x<unique id>",
        )


def _are_identities(value: str) -> bool:
    return all(is_identity(item) for item in value.split(","))


def _are_gpus(identities: str, gpus: Sequence[GpuLocation]) -> bool:
    # One by one: the first that is none of ours settles it.
    return all(resolve(gpus, item).gpus for item in identities.split(","))


def _grant_all(asked: dict[str, str], gpus: Sequence[GpuLocation], *, ignore_unknown: bool) -> Grant:
    chosen: dict[int, GpuLocation] = {}
    notes = []
    for variable, value in asked.items():
        resolution = _resolve(variable, value, gpus)
        for problem in (*resolution.broken_ranges, *resolution.unknown):
            sentence = f"{variable}={_shown(value)}: {problem.message}"
            if not ignore_unknown:
                raise RequestError(sentence, hint=problem.hint)
            notes.append(sentence)
        _refuse_twice(variable, asked, resolution.gpus, chosen)
        chosen.update((gpu.number, gpu) for gpu in resolution.gpus)
    return Grant(gpus=tuple(chosen[number] for number in sorted(chosen)), notes=tuple(notes))


def _resolve(variable: str, value: str, gpus: Sequence[GpuLocation]) -> Resolution:
    try:
        return resolve(gpus, value)
    except RequestError as error:
        raise RequestError(f"{variable}={_shown(value)}: {error.message}", hint=error.hint) from error


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


def _shown(value: str) -> str:
    shown = value if len(value) <= CHARACTERS_SHOWN else f"{value[:CHARACTERS_SHOWN]}..."
    return shown if shown.isprintable() else ascii(shown)
