"""Decides what a starting container gets, by the rules and on the host as it is now. Nothing is written.

The runtime carries out the plan, and `amd-ctk explain` shows it. The GPU Tracker completes it if GPUs are left to
choose. The rules, and what an image can do with them, are in docs/reference/requests.md.
"""

from __future__ import annotations

from amd_device_spec.oci import VRAM_VARIABLES, Edits, add_edits, build_edits, maker_for
from amd_device_spec.request import (
    NOT_LIMITED,
    SWARM_PREFIX,
    VISIBLE_DEVICES,
    GpuRequest,
    Node,
    is_permitted,
    keep_last_request,
    name_chosen_gpus,
    requested_gpus,
    with_variable,
)
from amdgpu_discovery.choices.oci_spec import Grant
from amdgpu_discovery.choices.selection import ALL, may_be_choice, resolve
from amdgpu_discovery.driver.device_nodes import closed_nodes, closed_nodes_note, find_device_nodes
from amdgpu_discovery.errors import DriverUnavailable, GpusHidden, RequestError
from amdgpu_discovery.gpu import DeviceNode, Gpu, GpuLocation, UnnumberedGpu
from amdgpu_discovery.host import Host, is_user_namespace
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from amd_device_spec.settings import Settings
    from amdgpu_discovery.health.limits import HealthLimits

    # Takes nodes that would be closed, and returns the replacement to bind for the path of each.
    Bind = Callable[[Sequence[DeviceNode]], dict[str, str]]
    # Given by the GPU Tracker: returns the GPUs of a request without the drained ones that only its `all` includes.
    SkipDrained = Callable[[Host, str, Sequence[GpuLocation]], Sequence[GpuLocation]]
    # Raises NumbersChanged if requests use a number that meant another GPU before one was lost.
    RefuseOldNumbers = Callable[[Host, Sequence[str]], None]

# How many ignored items the log lists one by one: a request can name a thousand unknown GPUs.
MOST_NOTES = 8


class StartPlan(Value):
    """What a starting container gets.

    Attributes:
        request: The container's request; None if it has none, or may have none.
        grant: The GPUs, or what the GPU Tracker has yet to choose.
        located: The GPUs of the host, as far as they were looked up.
        asked: The user's words for the GPUs, with those behind groups; () if Swarm or Slurm chose the GPUs.
        limits: Health limits for GPUs that the GPU Tracker chooses; None if it chooses none.
        notes: A sentence for the log about each item that is ignored.
    """

    request: GpuRequest | None = None
    grant: Grant = Grant(gpus=())
    located: tuple[GpuLocation, ...] = ()
    asked: tuple[str, ...] = ()
    limits: HealthLimits | None = None
    notes: tuple[str, ...] = ()

    @property
    def needs_tracker(self) -> bool:
        """Return whether the GPU Tracker has to choose the GPUs."""
        return bool(self.grant.vram or self.grant.candidates)

    def with_gpus(self, gpus: Iterable[GpuLocation]) -> StartPlan:
        """Return the plan with the GPUs that the GPU Tracker chose."""
        return self.replace(grant=self.grant.replace(gpus=tuple(gpus)))


class EditedSpec(Value):
    """An edited spec: its nodes and edits, whether anything changed, and sentences for the log."""

    nodes: tuple[DeviceNode, ...]
    edits: Edits
    is_changed: bool
    notes: tuple[str, ...]


def plan_start(
    spec: dict[str, Any],
    host: Host,
    settings: Settings,
    *,
    skip_drained: SkipDrained,
    refuse_old_numbers: RefuseOldNumbers,
) -> StartPlan:
    """Return what the container of this `spec` gets; RequestError and others if its request cannot be met.

    Two functions come from the tracker: `skip_drained` removes drained GPUs from a request for all, and
    `refuse_old_numbers` raises if a number meant another GPU before one was lost.
    """
    request = requested_gpus(spec, settings)
    if request is not None and not is_permitted(spec, settings):
        policy = settings.visible_devices_env
        note = f"{VISIBLE_DEVICES} and Swarm resources are ignored because visible-devices-env is {policy}"
        return StartPlan(notes=(note,))
    try:
        grant, located = grant_on_host(request, host, settings)
    except RequestError:
        # If a number belonged to a lost GPU, or to one after it, that is the cause.
        if request is not None and request.visible:
            refuse_old_numbers(host, [request.visible])
        raise
    asked = _user_request(request, grant, settings)
    if settings.drained_in_all == "skip" and grant.gpus and asked and ALL in asked[0].lower():
        grant = grant.replace(gpus=tuple(skip_drained(host, asked[0], grant.gpus)))
    return StartPlan(
        request=request,
        grant=grant,
        located=tuple(located),
        asked=asked,
        limits=settings.choice_rules().limits if grant.candidates else None,
        notes=grant.notes,
    )


def edit_spec(
    spec: dict[str, Any],
    plan: StartPlan,
    host: Host,
    settings: Settings,
    *,
    bind: Bind,
    poststop: Sequence[dict[str, Any]] = (),
    vram_total_mb: int = 0,
    part_mb: int = 0,
    runtime: str = "runc",
    by_systemd: bool | None = None,
    is_preview: bool = False,
    is_rootless: bool = False,
    is_alone: Callable[[], bool] = lambda: False,
) -> EditedSpec:
    """Put a plan into a spec; `bind` gets the nodes that would be closed. Raises SpecError and RequestError.

    `part_mb` is how much memory of each GPU its job has, in MiB; 0 for all. `runtime` is the usual program; a container
    can need another one. `by_systemd` is whether systemd makes its cgroup, None if a preview does not know. A preview
    changes nothing outside the spec, and knows whether the container's engine `is_rootless`. `is_alone` returns whether
    no other container can have its GPUs.
    """
    grant = plan.grant
    memory = NOT_LIMITED
    if _may_be_limited(plan, settings, part_mb):
        # Few containers have a limit.
        from amd_device_spec.start.memory_limit import limit_memory

        memory = limit_memory(
            spec,
            plan.request.memory if plan.request else None,
            grant,
            host,
            settings,
            part_mb=part_mb,
            runtime=maker_for(spec) or runtime,
            by_systemd=by_systemd,
            is_preview=is_preview,
            is_rootless=is_rootless,
            is_alone=is_alone,
        )
    if grant.vram or memory.mib:
        _drop_limits_of_others(spec)
    nodes = find_device_nodes(host, grant.gpus)
    closed = closed_nodes(nodes, spec)
    is_bound = closed and settings.device_mode != "host" and not is_user_namespace()
    edits = build_edits(
        nodes,
        keep_host_mode=settings.device_mode == "host",
        sources=bind(closed) if is_bound else {},
        poststop=poststop,
        vram_mb=memory.mib or (grant.vram.mib if grant.vram else 0),
        vram_total_mb=vram_total_mb or memory.total_mib,
        vram_headroom_mb=settings.swarm_vram_headroom,
    )
    changes = [
        add_edits(spec, edits),
        memory.is_enforced,
        _remove_filters(spec, plan, settings),
        keep_last_request(spec),
    ]
    if grant.choice:
        changes.append(name_chosen_gpus(spec, grant.gpus))
    note = closed_nodes_note(closed, spec) if closed else ""
    notes = (*memory.notes, note) if note else memory.notes
    return EditedSpec(nodes=tuple(nodes), edits=edits, is_changed=any(changes), notes=notes)


def _user_request(request: GpuRequest | None, grant: Grant, settings: Settings) -> tuple[str, ...]:
    if request is None or request.visible is None or grant.kinds:
        return ()
    if grant.choice is None:
        return (request.visible,)
    # Most requests name GPUs.
    return settings.choice_rules().expand_request(request.visible, grant.choice)


def _drop_limits_of_others(spec: dict[str, Any]) -> None:
    """Remove memory limits that an image or a user wrote into the environment."""
    environment = spec["process"]["env"]
    environment[:] = [variable for variable in environment if variable.partition("=")[0] not in VRAM_VARIABLES]


def _may_be_limited(plan: StartPlan, settings: Settings, part_mb: int) -> bool:
    """Return whether somebody set a limit on the memory of the container's GPUs."""
    if plan.request and plan.request.memory is not None:
        return True
    return bool(plan.grant.gpus and (plan.grant.vram or part_mb or settings.limits_memory))


def _remove_filters(spec: dict[str, Any], plan: StartPlan, settings: Settings) -> bool:
    if plan.request is None or plan.request.job is None or not plan.grant.gpus:
        return False
    # Few containers are started by Slurm.
    from amd_device_spec.slurm.job_gpus import remove_filters

    return remove_filters(spec, plan.request.job, settings)


def grant_on_host(request: GpuRequest | None, host: Host, settings: Settings) -> tuple[Grant, list[GpuLocation]]:
    """Return what a request gets, and the GPUs of the host as far as they were looked up.

    Raises the errors of `decide_grant`. If the request needs GPUs, also DriverUnavailable and GpusHidden.
    """
    if request is None:
        return Grant(gpus=()), []
    if request.asks_for_nothing:
        return _grant_nothing(request), []
    try:
        gpus = locate_gpus(host, board_ids=request.names_identities)
    except (DriverUnavailable, GpusHidden):
        if request.needs_gpus:
            raise
        gpus = []

    def decide(allowed: Sequence[GpuLocation]) -> Grant:
        node = Node(
            gpus=allowed,
            settings=settings,
            unnumbered=lambda: _find_unnumbered_gpus(host),
            described=lambda: _find_gpus(host),
        )
        return _grant(request, node)

    if request.job is None:
        return decide(gpus), gpus
    # Few containers are started by Slurm.
    from amd_device_spec.slurm.job_gpus import grant_in_job

    return grant_in_job(request, request.job, gpus, host, settings, decide=decide), gpus


def decide_grant(
    request: GpuRequest,
    gpus: Sequence[GpuLocation],
    settings: Settings,
    *,
    unnumbered: Callable[[], Sequence[UnnumberedGpu]] = tuple,
    described: Callable[[], Sequence[Gpu]] = tuple,
) -> Grant:
    """Decide which GPUs of a host a request gets; RequestError if it cannot be met as written.

    `unnumbered` is called only if a request names an address without a numbered GPU, and `described`, which returns all
    facts about the GPUs, only for choices. With unknown-gpus "ignore", items that cannot be met are left out and noted
    instead.
    """
    if request.asks_for_nothing:
        return _grant_nothing(request)
    return _grant(request, Node(gpus=gpus, settings=settings, unnumbered=unnumbered, described=described))


def _grant_nothing(request: GpuRequest) -> Grant:
    variables = " and ".join(SWARM_PREFIX + kind for kind in sorted(request.resources))
    note = f"ignoring {variables} because {VISIBLE_DEVICES} asks for no GPU"
    return Grant(gpus=(), notes=(note,) if variables else ())


def _grant(request: GpuRequest, node: Node) -> Grant:
    asked = {} if request.visible is None else {VISIBLE_DEVICES: request.visible}
    if not (request.resources or request.unadvertised):
        return _grant_named(asked, node)
    # Most requests come from a user alone.
    from amd_device_spec.start.swarm_choice import read_choice

    choice = read_choice(request, node)
    granted = _grant_named(asked if choice.variables is None else choice.variables, node)
    return granted.replace(notes=(*granted.notes, *choice.notes), kinds=choice.kinds, vram=choice.vram)


def _find_unnumbered_gpus(host: Host) -> list[UnnumberedGpu]:
    # Only requests that cannot be met need these.
    from amdgpu_discovery.discover import find_unnumbered_gpus

    return find_unnumbered_gpus(host)


def _find_gpus(host: Host) -> list[Gpu]:
    # Only choices need more than the locations of GPUs.
    from amdgpu_discovery.discover import find_gpus

    return find_gpus(host)


def _grant_named(asked: dict[str, str], node: Node) -> Grant:
    """Grant the GPUs that variables of the environment name. Raises the errors of `decide_grant`."""
    if VISIBLE_DEVICES in asked and (granted := _grant_choice(asked[VISIBLE_DEVICES], node)):
        return granted
    chosen: dict[int, GpuLocation] = {}
    order: tuple[int, ...] = ()
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
        if variable == VISIBLE_DEVICES:
            order = resolution.order
    return Grant(gpus=tuple(chosen[number] for number in sorted(chosen)), order=order, notes=tuple(notes))


def _grant_choice(value: str, node: Node) -> Grant | None:
    """Grant a choice; return None if the request names GPUs."""
    if not (may_be_choice(value) or (node.settings.integrated_gpus == "exclude" and ALL in value.lower())):
        return None
    # Most requests name GPUs.
    from amd_device_spec.start.choice_grant import grant_choice

    return grant_choice(value, node)


def _notes_of(variable: str, value: str, problems: Sequence[RequestError], node: Node) -> list[str]:
    """Return notes for the log about the problems of a variable, or raise the first if they are not ignored."""
    if node.settings.unknown_gpus == "error":
        raise with_variable(variable, value, problems[0])
    notes = [with_variable(variable, value, problem).message for problem in problems[:MOST_NOTES]]
    more = len(problems) - MOST_NOTES
    return [*notes, f"{variable}: {more} more items cannot be met"] if more > 0 else notes


def _refuse_twice(
    variable: str, asked: dict[str, str], named: Iterable[GpuLocation], chosen: dict[int, GpuLocation]
) -> None:
    """Refuse a GPU that Swarm counted twice: the task would get fewer GPUs than promised."""
    twice = next((gpu.number for gpu in named if gpu.number in chosen), None)
    if twice is not None:
        others = " and ".join(other for other in asked if other != variable)
        raise RequestError(
            f"{others} and {variable} both name GPU {twice}; a GPU can be assigned only once",
            hint="reserve resources of one kind in a service, or name every GPU in one kind only",
        )
