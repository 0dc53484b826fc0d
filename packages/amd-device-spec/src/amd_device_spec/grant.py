"""Decide which GPUs of a host a container's request gets.

The rules, and what an image can do by them, are in docs/reference/requests.md.
"""

from __future__ import annotations

from amd_device_spec.request import SWARM_PREFIX, VISIBLE_DEVICES, VRAM_KIND, VramRequest, is_amount
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.selection import names_numbers, resolve, split_items
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from amd_device_spec.request import GpuRequest
    from amd_device_spec.settings import Settings
    from amdgpu_discovery.gpu import GpuLocation, UnnumberedGpu

# Swarm's amounts are 64-bit integers.
LONGEST_AMOUNT = 19
# How many things that were ignored the log says one by one: a request can name a thousand unknown GPUs.
MOST_NOTES = 8


class Grant(Value):
    """What a request gets on this host.

    Attributes:
        gpus: The GPUs, by number.
        notes: A sentence for the log about each thing that was ignored.
        kinds: The resource kinds by which Swarm chose.
        vram: Memory of a GPU (in MiB) that the GPU Tracker has yet to choose; then there are no `gpus`.
    """

    gpus: tuple[GpuLocation, ...]
    notes: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    vram: VramRequest | None = None


class Node(Value):
    """What a request is held against: the GPUs, the administrator's settings, and what finds GPUs without a number."""

    gpus: Sequence[GpuLocation]
    settings: Settings
    unnumbered: Callable[[], Sequence[UnnumberedGpu]]


def decide_grant(
    request: GpuRequest,
    gpus: Sequence[GpuLocation],
    settings: Settings,
    *,
    unnumbered: Callable[[], Sequence[UnnumberedGpu]] = tuple,
) -> Grant:
    """Decide which GPUs of a host a request gets; RequestError where it cannot be met as it is written.

    `unnumbered` is called only where a request names an address without a numbered GPU. With unknown-gpus "ignore" what
    cannot be met is left out and noted instead.
    """
    if request.asks_for_nothing:
        variables = " and ".join(SWARM_PREFIX + kind for kind in sorted(request.resources))
        note = f"ignoring {variables} because {VISIBLE_DEVICES} asks for no GPU"
        return Grant(gpus=(), notes=(note,) if variables else ())
    node = Node(gpus=gpus, settings=settings, unnumbered=unnumbered)
    if request.resources or request.unadvertised:
        return _grant_scheduled(request, node)
    return _grant_named(_by_user(request), node)


def _grant_scheduled(request: GpuRequest, node: Node) -> Grant:
    """Grant what Swarm chose; where it chose nothing, what the user asks for."""
    _refuse_unadvertised_memory(request)
    vram = _vram(request, node.settings)
    chosen, problems = _split_by_author(request, node)
    if chosen and vram:
        raise RequestError(
            f"{vram} is memory of a shared GPU and {' and '.join(chosen)} names whole ones",
            hint="reserve one or the other in a service",
        )
    if not (chosen or vram):
        # A task must not start without the GPUs it reserved, unless it asked for others.
        if problems and request.visible is None and node.settings.unknown_gpus == "error":
            raise problems[0]
        granted = _grant_named(_by_user(request), node)
    else:
        granted = _grant_chosen(request, chosen, vram, node)
    return granted.replace(notes=(*granted.notes, *(f"{problem.message}, and is ignored" for problem in problems)))


def _grant_chosen(request: GpuRequest, chosen: dict[str, str], vram: VramRequest | None, node: Node) -> Grant:
    variables = [f"{SWARM_PREFIX}{vram.kind}"] if vram else list(chosen)
    kinds = tuple(variable.removeprefix(SWARM_PREFIX) for variable in variables)
    granted = _grant_named(chosen, node).replace(kinds=kinds, vram=vram)
    if request.visible is None:
        return granted
    from amdgpu_discovery.unknown_gpus import shown

    reason = f"{' and '.join(variables)} {'reserves memory' if vram else 'names GPUs'}"
    note = f"{VISIBLE_DEVICES}={shown(request.visible)} is ignored because {reason}"
    return granted.replace(notes=(*granted.notes, note))


def _split_by_author(request: GpuRequest, node: Node) -> tuple[dict[str, str], list[RequestError]]:
    """Return the variables that may be Swarm's choice, and why each other that names GPUs cannot be."""
    chosen: dict[str, str] = {}
    problems: list[RequestError] = []
    for kind in sorted(request.resources.keys() - set(node.settings.swarm_vram_resources)):
        variable, value = SWARM_PREFIX + kind, request.resources[kind]
        if problem := _problem_of_choice(variable, value, node):
            problems.append(problem)
        else:
            chosen[variable] = value
    return chosen, problems + list(_problems_of_unadvertised(request, node))


def _problem_of_choice(variable: str, value: str, node: Node) -> RequestError | None:
    """Return why Swarm cannot have written this on this node, None where it can; RequestError for an amount."""
    try:
        items = split_items(value)
    except RequestError as error:
        return _with_variable(variable, value, error)
    # Swarm does write amounts, so this may be its own: other GPUs than the reserved ones would be given instead.
    if any(map(is_amount, items)):
        _refuse_amount(variable, value)
    return next(filter(None, (_problem_of_name(variable, value, item, node) for item in items)), None)


def _problem_of_name(variable: str, value: str, item: str, node: Node) -> RequestError | None:
    from amdgpu_discovery.identities import FORMS, form_of
    from amdgpu_discovery.unknown_gpus import shown

    form, advertised = form_of(item), node.settings.swarm_resource_names
    if form not in ("", advertised):
        return RequestError(
            f"{variable}={shown(value)} names a GPU by {FORMS[form]}, and this node advertises GPUs by"
            f" {FORMS[advertised]}",
            hint=f"if it does not, run 'amd-ctk config set swarm-resource-names {form}' there",
        )
    if names_numbers(item):
        return RequestError(
            f"{variable}={shown(value)} does not name GPUs as Swarm does",
            hint=f"ask for GPUs with {VISIBLE_DEVICES}, and leave {variable} to Swarm",
        )
    # Swarm gives out any word that a node advertises, so a wrong one may come from it; it is refused as unknown.
    return None


def _problems_of_unadvertised(request: GpuRequest, node: Node) -> Iterator[RequestError]:
    """Yield why each resource of another kind that names a GPU of this host does not count."""
    from amdgpu_discovery.unknown_gpus import shown

    for kind, name in request.unadvertised:
        if resolve(node.gpus, name).gpus:
            yield RequestError(
                f"{shown(f'{SWARM_PREFIX}{kind}={name}')} is of a kind by which this node does not advertise GPUs",
                hint="if it does, add the kind to swarm-resources with 'amd-ctk config set' there",
            )


def _vram(request: GpuRequest, settings: Settings) -> VramRequest | None:
    """Return the amount of memory that Swarm gave, None for none; RequestError where it is no amount of one kind."""
    from amdgpu_discovery.unknown_gpus import shown

    kinds = sorted(kind for kind in settings.swarm_vram_resources if kind in request.resources)
    if len(kinds) > 1:
        raise RequestError(
            f"{' and '.join(SWARM_PREFIX + kind for kind in kinds)} each reserve memory of a GPU",
            hint="reserve one of them in a service",
        )
    for kind in kinds:
        value = request.resources[kind]
        if len(value) > LONGEST_AMOUNT or not is_amount(value) or not int(value):
            raise RequestError(
                f"{SWARM_PREFIX}{kind}={shown(value)} is not a number of MiB",
                hint=f"write one number in node-generic-resources of the docker daemon: {kind}=65520",
            )
        return VramRequest(kind=kind, megabytes=int(value))
    return None


def _refuse_unadvertised_memory(request: GpuRequest) -> None:
    """Refuse memory that this node does not count: the task would start without a GPU."""
    from amdgpu_discovery.unknown_gpus import shown

    for kind, value in request.unadvertised:
        if kind == VRAM_KIND and is_amount(value):
            raise RequestError(
                f"{SWARM_PREFIX}{kind}={shown(value)} is memory of a GPU, which this node does not hand out",
                hint="run 'amd-ctk swarm setup --vram' there",
            )


def _refuse_amount(variable: str, value: str) -> None:
    from amdgpu_discovery.unknown_gpus import shown

    kind = variable.removeprefix(SWARM_PREFIX)
    raise RequestError(
        f"{variable}={shown(value)} is an amount and names no GPU",
        hint=f"give every GPU its name in node-generic-resources of the docker daemon: {kind}=0x<unique id>",
    )


def _grant_named(asked: dict[str, str], node: Node) -> Grant:
    """Grant what variables of the environment name. Errors as `grant`."""
    chosen: dict[int, GpuLocation] = {}
    notes: list[str] = []
    for variable, value in asked.items():
        try:
            resolution = resolve(node.gpus, value, unnumbered=node.unnumbered)
        except RequestError as error:
            raise _with_variable(variable, value, error) from error
        if resolution.problems:
            notes += _notes_of(variable, value, resolution.problems, node)
        _refuse_twice(variable, asked, resolution.gpus, chosen)
        chosen.update((gpu.number, gpu) for gpu in resolution.gpus)
    return Grant(gpus=tuple(chosen[number] for number in sorted(chosen)), notes=tuple(notes))


def _notes_of(variable: str, value: str, problems: Sequence[RequestError], node: Node) -> list[str]:
    """Return what the log says about the problems of a variable; the first of them, unless they are ignored."""
    if node.settings.unknown_gpus == "error":
        raise _with_variable(variable, value, problems[0])
    notes = [_with_variable(variable, value, problem).message for problem in problems[:MOST_NOTES]]
    more = len(problems) - MOST_NOTES
    return [*notes, f"{variable}: {more} more items cannot be met"] if more > 0 else notes


def _with_variable(variable: str, value: str, error: RequestError) -> RequestError:
    from amdgpu_discovery.unknown_gpus import shown

    return RequestError(f"{variable}={shown(value)}: {error.message}", hint=error.hint)


def _refuse_twice(
    variable: str, asked: dict[str, str], named: Iterable[GpuLocation], chosen: dict[int, GpuLocation]
) -> None:
    """Refuse a GPU that Swarm has counted twice: the task was promised more than there would be."""
    twice = next((gpu.number for gpu in named if gpu.number in chosen), None)
    if twice is not None:
        others = " and ".join(other for other in asked if other != variable)
        raise RequestError(
            f"{others} and {variable} both name GPU {twice}; a GPU can be assigned only once",
            hint="reserve resources of one kind in a service, or name every GPU in one kind only",
        )


def _by_user(request: GpuRequest) -> dict[str, str]:
    return {} if request.visible is None else {VISIBLE_DEVICES: request.visible}
