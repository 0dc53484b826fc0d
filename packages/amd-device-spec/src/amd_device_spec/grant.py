"""Decide which GPUs a container's request gets: by the rules, and on a host as it is now.

The rules, and what an image can do by them, are in docs/reference/requests.md.
"""

from __future__ import annotations

from amd_device_spec.request import SWARM_PREFIX, VISIBLE_DEVICES, by_user, with_variable
from amdgpu_discovery.errors import DriverUnavailable, GpusHidden, RequestError
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.selection import ALL, may_be_choice, resolve
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from amd_device_spec.request import GpuRequest, VramRequest
    from amd_device_spec.settings import Settings
    from amd_device_spec.slurm_job import Job
    from amdgpu_discovery.choices.grammar import Choice
    from amdgpu_discovery.gpu import Gpu, GpuLocation, UnnumberedGpu
    from amdgpu_discovery.host import Host

# How many things that were ignored the log says one by one: a request can name a thousand unknown GPUs.
MOST_NOTES = 8


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


def grant_on_host(request: GpuRequest | None, host: Host, settings: Settings) -> tuple[Grant, list[GpuLocation]]:
    """Return what a request gets, and the GPUs of the host as far as they were looked at. Errors as `decide_grant`.

    DriverUnavailable where the request needs GPUs and there is no driver.
    """
    if request is None:
        return Grant(gpus=()), []
    gpus = [] if request.asks_for_nothing else _locate_gpus(request, host)
    return _decide_on_host(request, gpus, host, settings), gpus


def decide_grant(
    request: GpuRequest,
    gpus: Sequence[GpuLocation],
    settings: Settings,
    *,
    unnumbered: Callable[[], Sequence[UnnumberedGpu]] = tuple,
    described: Callable[[], Sequence[Gpu]] = tuple,
) -> Grant:
    """Decide which GPUs of a host a request gets; RequestError where it cannot be met as it is written.

    `unnumbered` is called only where a request names an address without a numbered GPU, `described` for what is known
    of the GPUs only where a request says what they must be. With unknown-gpus "ignore" what cannot be met is left out
    and noted instead.
    """
    if request.asks_for_nothing:
        variables = " and ".join(SWARM_PREFIX + kind for kind in sorted(request.resources))
        note = f"ignoring {variables} because {VISIBLE_DEVICES} asks for no GPU"
        return Grant(gpus=(), notes=(note,) if variables else ())
    node = Node(gpus=gpus, settings=settings, unnumbered=unnumbered, described=described)
    if not (request.resources or request.unadvertised):
        return _grant_named(by_user(request), node)
    # Most requests are a user's alone.
    from amd_device_spec.swarm_choice import read_choice

    choice = read_choice(request, node)
    granted = _grant_named(choice.variables, node)
    return granted.replace(notes=(*granted.notes, *choice.notes), kinds=choice.kinds, vram=choice.vram)


def grant_in_job(
    request: GpuRequest,
    job: Job,
    gpus: Sequence[GpuLocation],
    host: Host,
    settings: Settings,
    *,
    unnumbered: Callable[[], Sequence[UnnumberedGpu]] = tuple,
    described: Callable[[], Sequence[Gpu]] = tuple,
) -> Grant:
    """Decide what a request gets in a job of Slurm: the job's GPUs, or those of them that it asks for.

    Errors as `decide_grant`; SlurmError where nobody can tell which GPUs the job has. `gpus` are those that this
    process may use.
    """
    # Few containers are started by Slurm.
    from amd_device_spec.slurm.job_gpus import find_gpus_of_job, no_gpu_of_job, with_gpus_of_job

    allowed = find_gpus_of_job(job, gpus, host)
    if not (request.is_named or request.unadvertised):
        return Grant(gpus=tuple(allowed))
    if gpus and not allowed:
        problem = with_variable(VISIBLE_DEVICES, request.visible or "", no_gpu_of_job())
        if settings.unknown_gpus == "error":
            raise problem
        return Grant(gpus=(), notes=(problem.message,))
    try:
        return decide_grant(request, allowed, settings, unnumbered=unnumbered, described=described)
    except RequestError as error:
        raise with_gpus_of_job(error, [gpu.number for gpu in allowed]) from error


def _decide_on_host(request: GpuRequest, gpus: list[GpuLocation], host: Host, settings: Settings) -> Grant:
    def unnumbered() -> list[UnnumberedGpu]:
        return _find_unnumbered_gpus(host)

    def described() -> list[Gpu]:
        return _find_gpus(host)

    if request.job is None or request.asks_for_nothing:
        return decide_grant(request, gpus, settings, unnumbered=unnumbered, described=described)
    return grant_in_job(request, request.job, gpus, host, settings, unnumbered=unnumbered, described=described)


def _locate_gpus(request: GpuRequest, host: Host) -> list[GpuLocation]:
    try:
        return locate_gpus(host, board_ids=request.names_identities)
    except (DriverUnavailable, GpusHidden):
        if request.needs_gpus:
            raise
        return []


def _find_unnumbered_gpus(host: Host) -> list[UnnumberedGpu]:
    # Only requests that cannot be met ask for these.
    from amdgpu_discovery.discover import find_unnumbered_gpus

    return find_unnumbered_gpus(host)


def _find_gpus(host: Host) -> list[Gpu]:
    # Only requests that say what is needed ask for more than where GPUs are.
    from amdgpu_discovery.discover import find_gpus

    return find_gpus(host)


def _grant_named(asked: dict[str, str], node: Node) -> Grant:
    """Grant what variables of the environment name. Errors as `decide_grant`."""
    if VISIBLE_DEVICES in asked and (granted := _grant_choice(asked[VISIBLE_DEVICES], node)):
        return granted
    chosen: dict[int, GpuLocation] = {}
    notes: list[str] = []
    for variable, value in asked.items():
        try:
            resolution = resolve(node.gpus, value, unnumbered=node.unnumbered)
        except RequestError as error:
            raise with_variable(variable, value, error) from error
        if resolution.problems:
            notes += _notes_of(variable, value, resolution.problems, node)
        _refuse_twice(variable, asked, resolution.gpus, chosen)
        chosen.update((gpu.number, gpu) for gpu in resolution.gpus)
    return Grant(gpus=tuple(chosen[number] for number in sorted(chosen)), notes=tuple(notes))


def _grant_choice(value: str, node: Node) -> Grant | None:
    """Grant a request that says what is needed, None where it names GPUs."""
    if not (may_be_choice(value) or (node.settings.integrated_gpus == "exclude" and ALL in value.lower())):
        return None
    # Most requests name GPUs.
    from amd_device_spec.choice_grant import grant_choice

    granted = grant_choice(value, node)
    return Grant(**granted.as_dict()) if granted else None


def _notes_of(variable: str, value: str, problems: Sequence[RequestError], node: Node) -> list[str]:
    """Return what the log says about the problems of a variable; the first of them, unless they are ignored."""
    if node.settings.unknown_gpus == "error":
        raise with_variable(variable, value, problems[0])
    notes = [with_variable(variable, value, problem).message for problem in problems[:MOST_NOTES]]
    more = len(problems) - MOST_NOTES
    return [*notes, f"{variable}: {more} more items cannot be met"] if more > 0 else notes


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
