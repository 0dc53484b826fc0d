"""What Docker Swarm's generic resources give a task: GPUs by name, or an amount of the memory of one.

Apart from `request`, because only tasks of a Swarm have any.
"""

from __future__ import annotations

from amd_device_spec.request import SWARM_PREFIX, VISIBLE_DEVICES, VRAM_KIND, grant_named
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.selection import asks_for_nothing, resolve
from amdgpu_discovery.unknown_gpus import shown
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from amd_device_spec.request import GpuRequest, Grant
    from amdgpu_discovery.location import GpuLocation

# Swarm's amounts are 64-bit integers.
LONGEST_AMOUNT = 19


class VramRequest(Value):
    """Megabytes (2^20 bytes) of the memory of one GPU, which Swarm has taken from the node's pool of a `kind`."""

    kind: str
    megabytes: int

    def __str__(self) -> str:
        """Return it as it stands in the environment."""
        return f"{SWARM_PREFIX}{self.kind}={self.megabytes}"


def grant_scheduled(
    request: GpuRequest,
    gpus: Sequence[GpuLocation],
    *,
    swarm_kinds: Sequence[str],
    vram_kinds: Sequence[str],
    ignore_unknown: bool,
) -> Grant:
    """Do what `request.grant` does where Swarm has set resources."""
    vram = _vram(request.resources, vram_kinds)
    named = {kind: value for kind, value in request.resources.items() if kind not in vram_kinds}
    scheduled = dict(_scheduled(named, gpus, swarm_kinds))
    if not scheduled and not vram:
        return grant_named(request.by_user, gpus, ignore_unknown=ignore_unknown)
    if scheduled and vram:
        raise RequestError(
            f"{vram} is memory of a shared GPU and {' and '.join(scheduled)} names whole ones",
            hint="reserve one or the other in a service",
        )
    granted = grant_named(scheduled, gpus, ignore_unknown=ignore_unknown)
    variables = [f"{SWARM_PREFIX}{vram.kind}"] if vram else list(scheduled)
    kinds = tuple(variable.removeprefix(SWARM_PREFIX) for variable in variables)
    granted = granted.replace(kinds=kinds, vram=vram)
    if request.visible is None:
        return granted
    reason = f"{' and '.join(variables)} {'reserves memory' if vram else 'names GPUs'}"
    note = f"{VISIBLE_DEVICES}={shown(request.visible)} is ignored because {reason}"
    return granted.replace(notes=(*granted.notes, note))


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
            continue
        if kind == VRAM_KIND:
            _refuse_undeclared_memory(kind, value)
        if _are_gpus(value, gpus):
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
                f"{SWARM_PREFIX}{kind}={shown(value)} is not a number of megabytes",
                hint=f"write one number in node-generic-resources of the docker daemon: {kind}=65520",
            )
        return VramRequest(kind=kind, megabytes=int(value))
    return None


def _refuse_undeclared_memory(kind: str, value: str) -> None:
    """Refuse memory that nobody keeps account of: the task would start without a GPU and not say so."""
    if _is_amount(value):
        raise RequestError(
            f"{SWARM_PREFIX}{kind}={shown(value)} is memory of a GPU, which this node does not hand out",
            hint="run 'amd-ctk swarm setup --vram' there",
        )


def _refuse_amount(kind: str, value: str) -> None:
    if any(_is_amount(item.strip()) for item in value.split(",")):
        raise RequestError(
            f"{SWARM_PREFIX}{kind}={shown(value)} is an amount and names no GPU",
            hint=f"give every GPU its name in node-generic-resources of the docker daemon: {kind}=0x<unique id>",
        )


def _are_gpus(identities: str, gpus: Sequence[GpuLocation]) -> bool:
    # One by one: the first that is none of ours settles it.
    return all(resolve(gpus, item).gpus for item in identities.split(","))
