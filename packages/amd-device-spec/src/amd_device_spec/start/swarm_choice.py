"""Finds what Docker Swarm chose for a task, as far as the task's environment shows it.

Swarm writes `DOCKER_RESOURCE_<KIND>`, and any image can write that too: decision 3,
docs/decisions/0003-swarm-has-the-last-word.md.
"""

from __future__ import annotations

from amd_device_spec.request import (
    SWARM_PREFIX,
    VISIBLE_DEVICES,
    VRAM_KIND,
    is_amount,
    with_variable,
)
from amdgpu_discovery.choices.oci_spec import VramRequest
from amdgpu_discovery.choices.selection import FORMS, form_of, names_numbers, resolve, split_items
from amdgpu_discovery.choices.unknown_gpus import shown
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from amd_device_spec.request import GpuRequest, Node
    from amd_device_spec.settings import Settings

# Swarm's amounts are 64-bit integers.
MOST_RESOURCE_DIGITS = 19


class SwarmChoice(Value):
    """Swarm's part of a request.

    `variables` are the variables that name GPUs, with their values; None if Swarm chose nothing, so that the user's
    counts. `kinds` are the resource kinds of the choice, `vram` is memory from Swarm, and `notes` list what is ignored.
    """

    variables: dict[str, str] | None
    kinds: tuple[str, ...] = ()
    vram: VramRequest | None = None
    notes: tuple[str, ...] = ()


def read_choice(request: GpuRequest, node: Node) -> SwarmChoice:
    """Return what Swarm chose. Raises RequestError."""
    _refuse_unadvertised_memory(request)
    vram = _vram(request, node.settings)
    chosen, problems = _split_by_author(request, node)
    if chosen and vram:
        memory = f"{SWARM_PREFIX}{vram.kind}={vram.mib}"
        raise RequestError(
            f"{memory} is memory of a shared GPU and {' and '.join(chosen)} names whole ones",
            hint="reserve one or the other in a service",
        )
    notes = tuple(f"{problem.message}, and is ignored" for problem in problems)
    if chosen or vram:
        return _choice(request, chosen, vram, notes)
    # A task must not start without the GPUs it reserved, unless its user asked for others.
    if problems and request.visible is None and node.settings.unknown_gpus == "error":
        raise problems[0]
    return SwarmChoice(variables=None, notes=notes)


def _choice(
    request: GpuRequest, chosen: dict[str, str], vram: VramRequest | None, notes: tuple[str, ...]
) -> SwarmChoice:
    variables = [f"{SWARM_PREFIX}{vram.kind}"] if vram else list(chosen)
    kinds = tuple(variable.removeprefix(SWARM_PREFIX) for variable in variables)
    if request.visible is not None:
        reason = f"{' and '.join(variables)} {'reserves memory' if vram else 'names GPUs'}"
        notes = (f"{VISIBLE_DEVICES}={shown(request.visible)} is ignored because {reason}", *notes)
    return SwarmChoice(variables=chosen, kinds=kinds, vram=vram, notes=notes)


def _split_by_author(request: GpuRequest, node: Node) -> tuple[dict[str, str], list[RequestError]]:
    """Return the variables that may be Swarm's choice, and an error for each other variable that names GPUs."""
    chosen: dict[str, str] = {}
    problems: list[RequestError] = []
    for kind in sorted(request.resources.keys() - set(node.settings.swarm_vram_resources)):
        variable = SWARM_PREFIX + kind
        value = request.resources[kind]
        if problem := _problem_of_choice(variable, value, node):
            problems.append(problem)
        else:
            chosen[variable] = value
    return chosen, problems + list(_problems_of_unadvertised(request, node))


def _problem_of_choice(variable: str, value: str, node: Node) -> RequestError | None:
    """Return why Swarm cannot have written this on this node, None if it can; RequestError for an amount."""
    try:
        items = split_items(value)
    except RequestError as error:
        return with_variable(variable, value, error)
    # Swarm does write amounts, so this may be its choice. The task must not get other GPUs than it reserved.
    if any(map(is_amount, items)):
        _refuse_amount(variable, value)
    return next(filter(None, (_problem_of_name(variable, value, item, node) for item in items)), None)


def _problem_of_name(variable: str, value: str, item: str, node: Node) -> RequestError | None:
    form = form_of(item)
    advertised = node.settings.swarm_resource_names
    if form not in ("", advertised):
        return RequestError(
            f"{variable}={shown(value)} names a GPU by {FORMS[form]}, and this node advertises GPUs by"
            f" {FORMS[advertised]}",
            hint=f"if it does not, run 'sudo amd-ctk config set swarm-resource-names {form}' on that node",
        )
    # An image could guess any other form that names a GPU here.
    if names_numbers(item) or (not form and resolve(node.gpus, item).gpus):
        return RequestError(
            f"{variable}={shown(value)} does not name GPUs as Swarm does",
            hint=f"ask for GPUs with {VISIBLE_DEVICES}, and leave {variable} to Swarm",
        )
    # Swarm gives out any word that a node advertises, so it may have written a wrong one. That is refused as unknown.
    return None


def _problems_of_unadvertised(request: GpuRequest, node: Node) -> Iterator[RequestError]:
    """Yield an error for each unadvertised resource that names a GPU of this host."""
    for kind, name in request.unadvertised:
        if resolve(node.gpus, name).gpus:
            yield RequestError(
                f"{shown(f'{SWARM_PREFIX}{kind}={name}')} is of a kind by which this node does not advertise GPUs",
                hint="if it does, add the kind to swarm-resources with 'sudo amd-ctk config set' on that node",
            )


def _vram(request: GpuRequest, settings: Settings) -> VramRequest | None:
    """Return the memory that Swarm gave, None if it gave none; RequestError unless it is an amount of one kind."""
    kinds = sorted(kind for kind in settings.swarm_vram_resources if kind in request.resources)
    if len(kinds) > 1:
        raise RequestError(
            f"{' and '.join(SWARM_PREFIX + kind for kind in kinds)} each reserve memory of a GPU",
            hint="reserve one of them in a service",
        )
    for kind in kinds:
        value = request.resources[kind]
        if len(value) > MOST_RESOURCE_DIGITS or not is_amount(value) or not int(value):
            raise RequestError(
                f"{SWARM_PREFIX}{kind}={shown(value)} is not a number of MiB",
                hint=f"write one number in node-generic-resources of the docker daemon: {kind}=65520",
            )
        _require_more_than_headroom(f"{SWARM_PREFIX}{kind}", int(value), settings.swarm_vram_headroom)
        return VramRequest(kind=kind, mib=int(value))
    return None


def _require_more_than_headroom(variable: str, mib: int, headroom_mib: int) -> None:
    """Refuse an amount of memory that leaves nothing for the task's data."""
    if headroom_mib >= mib:
        raise RequestError(
            f"{variable}={mib} is not more than the headroom of {headroom_mib} MiB that this node keeps of each task's"
            " memory",
            hint="reserve more, or change swarm-vram-headroom with 'sudo amd-ctk config set' on that node",
        )


def _refuse_unadvertised_memory(request: GpuRequest) -> None:
    """Refuse memory that this node does not advertise: the task would start without a GPU."""
    for kind, value in request.unadvertised:
        if kind == VRAM_KIND and is_amount(value):
            raise RequestError(
                f"{SWARM_PREFIX}{kind}={shown(value)} is memory of a GPU, which this node does not hand out",
                hint="run 'sudo amd-ctk swarm setup --vram' on that node",
            )


def _refuse_amount(variable: str, value: str) -> None:
    kind = variable.removeprefix(SWARM_PREFIX)
    raise RequestError(
        f"{variable}={shown(value)} is an amount and names no GPU",
        hint=f"give every GPU its name in node-generic-resources of the docker daemon: {kind}=0x<unique id>",
    )
