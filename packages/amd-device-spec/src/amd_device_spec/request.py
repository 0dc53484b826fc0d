"""What a container asks for: the environment of its OCI spec, read as docs/reference/requests.md says.

`AMD_VISIBLE_DEVICES` is the user's word; `DOCKER_RESOURCE_<KIND>` is Swarm's, which sets it for every generic resource
of a task. Where Swarm has chosen GPUs its choice alone counts, because an image that carries
`AMD_VISIBLE_DEVICES=all` must not undo the scheduler's work.
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

VISIBLE_DEVICES = "AMD_VISIBLE_DEVICES"
SWARM_PREFIX = "DOCKER_RESOURCE_"


class GpuRequest(Value):
    """What the environment says: the last AMD_VISIBLE_DEVICES, and Swarm's resources by kind."""

    # None where the variable is not set, "" where it is empty.
    visible: str | None
    resources: dict[str, str]

    @property
    def asks_for_nothing(self) -> bool:
        """Return whether this is settled without a look at the host."""
        return not self.resources and (self.visible is None or asks_for_nothing(self.visible))


class Grant(Value):
    """What a request comes to on this host: its GPUs, and a sentence for the log about each thing that was ignored."""

    gpus: tuple[GpuLocation, ...]
    notes: tuple[str, ...] = ()


def requested_gpus(spec: dict[str, Any], swarm_kinds: Sequence[str]) -> GpuRequest | None:
    """Return what the container asks for, None where its environment says nothing about GPUs.

    `swarm_kinds` are the resource kinds that name GPUs. SpecError where the environment is not a list of strings.
    """
    visible: str | None = None
    resources: dict[str, str] = {}
    for name, value in _variables(spec):
        if name == VISIBLE_DEVICES:
            visible = value
        elif name.startswith(SWARM_PREFIX):
            resources[name.removeprefix(SWARM_PREFIX)] = value
    # Amounts of kinds that are not ours (memory, licences) need no look at the host.
    relevant = {kind: value for kind, value in resources.items() if kind in swarm_kinds or not _is_amount(value)}
    if visible is None and not relevant:
        return None
    return GpuRequest(visible=visible, resources=relevant)


def grant(
    request: GpuRequest, gpus: Sequence[GpuLocation], *, swarm_kinds: Sequence[str], ignore_unknown: bool = False
) -> Grant:
    """Decide which GPUs of a host a request gets; RequestError where it cannot be met as it is written.

    With `ignore_unknown` what cannot be met is left out and noted instead.
    """
    scheduled = dict(_scheduled(request.resources, gpus, swarm_kinds))
    if not scheduled:
        asked = {} if request.visible is None else {VISIBLE_DEVICES: request.visible}
        return _grant_all(asked, gpus, ignore_unknown=ignore_unknown)
    granted = _grant_all(scheduled, gpus, ignore_unknown=ignore_unknown)
    if request.visible is None:
        return granted
    note = f"{VISIBLE_DEVICES}={_shown(request.visible)} is ignored because {' and '.join(scheduled)} names GPUs"
    return granted.replace(notes=(*granted.notes, note))


def keep_last_request(spec: dict[str, Any]) -> bool:
    """Leave one AMD_VISIBLE_DEVICES in the environment, the last; return whether there were more.

    `docker run --gpus` appends its own to the user's, and what a process then finds depends on its libc.
    """
    environment = spec.get("process", {}).get("env") or []
    entries = [entry for entry in environment if entry.partition("=")[0] == VISIBLE_DEVICES]
    for superseded in entries[:-1]:
        environment.remove(superseded)
    return len(entries) > 1


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
        elif _all_are_ids(value, gpus):
            yield SWARM_PREFIX + kind, value


def _refuse_amount(kind: str, value: str) -> None:
    if any(_is_amount(item.strip()) for item in value.split(",")):
        raise RequestError(
            f"{SWARM_PREFIX}{kind}={_shown(value)} is an amount and names no GPU",
            hint=f"give every GPU its name in node-generic-resources of the docker daemon: {kind}=0x<unique id>",
        )


def _all_are_ids(value: str, gpus: Sequence[GpuLocation]) -> bool:
    if not all(is_identity(item) for item in value.split(",")):
        return False
    resolution = resolve(gpus, value)
    return not resolution.unknown and not resolution.broken_ranges


def _grant_all(asked: dict[str, str], gpus: Sequence[GpuLocation], *, ignore_unknown: bool) -> Grant:
    chosen: dict[int, GpuLocation] = {}
    notes = []
    for variable, value in asked.items():
        resolution = resolve(gpus, value)
        for problem in (*resolution.broken_ranges, *resolution.unknown):
            sentence = f"{variable}={_shown(value)}: {problem.message}"
            if not ignore_unknown:
                raise RequestError(sentence, hint=problem.hint)
            notes.append(sentence)
        chosen.update((gpu.number, gpu) for gpu in resolution.gpus)
    return Grant(gpus=tuple(chosen[number] for number in sorted(chosen)), notes=tuple(notes))


def _shown(value: str) -> str:
    shown = value if len(value) <= CHARACTERS_SHOWN else f"{value[:CHARACTERS_SHOWN]}..."
    return shown if shown.isprintable() else ascii(shown)
