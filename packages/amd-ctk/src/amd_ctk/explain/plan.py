"""What the runtime would make of a container's spec: its own functions, in its own order, and nothing written.

A test holds this against what `amd-container-runtime create` writes, for made-up requests on made-up hosts.
"""

from __future__ import annotations

from copy import deepcopy

from amd_ctk.explain.chosen import plan_choice
from amd_ctk.explain.memory import memory_of, plan_memory
from amd_ctk.explain.reservation import refusal_of_tracker
from amd_device_spec.grant import Grant, grant_on_host
from amd_device_spec.oci import PRIVATE_NODES, Edits, add_edits, build_edits
from amd_device_spec.oci_annotation import remove_edits
from amd_device_spec.request import (
    VISIBLE_DEVICES,
    GpuRequest,
    is_permitted,
    keep_last_request,
    name_chosen_gpus,
    requested_gpus,
)
from amd_device_spec.slurm.filters import remove_filters
from amd_gpu_tracker import may_be_tracking
from amd_gpu_tracker.claims.hook_entries import release_hook
from amd_gpu_tracker.records.state import open_state
from amdgpu_discovery.device_nodes import closed_nodes, closed_nodes_note, find_device_nodes
from amdgpu_discovery.discover import find_unnumbered_gpus
from amdgpu_discovery.errors import DriverUnavailable, FileError, RequestError, SpecError, ToolkitError
from amdgpu_discovery.host import is_user_namespace, read_environment
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.oci_spec import gpus_in_spec, is_privileged, names_gpus, names_requirements
from amdgpu_discovery.requirements.check import check_container
from amdgpu_discovery.selection import resolve
from amdgpu_discovery.unknown_gpus import shown
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from amd_device_spec.settings import Settings
    from amdgpu_discovery.gpu import DeviceNode, GpuLocation
    from amdgpu_discovery.host import Host


class Plan(Value):
    """What a container asks for and what it would get; `refusals` are why it would not start, the first as it is said.

    `spec` is what config.json would hold. `request` is None where nothing is asked, or nothing may be.
    """

    request: GpuRequest | None = None
    granted: Grant = Grant(gpus=())
    # What the engine itself has put into the spec.
    given: tuple[GpuLocation, ...] = ()
    nodes: tuple[DeviceNode, ...] = ()
    edits: Edits | None = None
    spec: dict[str, Any] = {}  # noqa: RUF012 - a default of a value, which nobody changes
    notes: tuple[str, ...] = ()
    refusals: tuple[ToolkitError, ...] = ()

    @property
    def gpus(self) -> list[GpuLocation]:
        """Return every GPU that the container can use, by number."""
        return sorted((*self.granted.gpus, *self.given), key=lambda gpu: gpu.number)


def plan_start(spec: dict[str, Any], host: Host, settings: Settings, *, container_id: str = "") -> Plan:
    """Return what the runtime would do with a container of this spec, which is not changed; SpecError, FileError."""
    asked = requested_gpus(spec, settings)
    request = asked if asked and is_permitted(spec, settings) else None
    notes = () if request is asked else (_not_permitted(settings),)
    plan = Plan(request=request, spec=_copy(spec), notes=notes)
    remove_edits(plan.spec)
    try:
        return _plan(plan, host, settings, container_id)
    except SpecError:
        raise
    except ToolkitError as error:
        return plan.replace(spec=deepcopy(spec), refusals=(error, *_further_refusals(error, request, host)))


def _copy(spec: dict[str, Any]) -> dict[str, Any]:
    try:
        return deepcopy(spec)
    except RecursionError as error:
        raise FileError("the container's config.json is nested too deeply") from error


def _plan(plan: Plan, host: Host, settings: Settings, container_id: str) -> Plan:
    granted, located = grant_on_host(plan.request, host, settings)
    if granted.vram:
        granted = plan_memory(plan.spec, host, granted, granted.vram)
    elif granted.choice and granted.candidates:
        claims_all = settings.privileged_claims == "all" and is_privileged(plan.spec)
        granted = plan_choice(plan.spec, host, granted, located, claims_all=claims_all)
    else:
        plan = plan.replace(given=tuple(find_given(plan.spec, host, located, granted)))
    plan = plan.replace(granted=granted, notes=(*plan.notes, *granted.notes))
    claimed = _find_claimed(plan, host, located, settings)
    # Memory and what is chosen are always reserved; what else is claimed only where it is tracked.
    is_chosen = bool(granted.vram or granted.candidates)
    has_claim = is_chosen or (may_be_tracking(host) and bool(claimed))
    notes = check_image(plan, host, settings, (*plan.gpus, *(claimed if has_claim else ())))
    plan = _plan_edits(plan.replace(notes=(*plan.notes, *notes)), host, settings, has_claim=has_claim)
    if not is_chosen and (refusal := refusal_of_tracker(host, claimed, container_id)):
        return plan.replace(refusals=(refusal,))
    return plan


def check_image(plan: Plan, host: Host, settings: Settings, gpus: Sequence[GpuLocation]) -> list[str]:
    """Return what the log would say about the requirements of an image; RequirementError where they are enforced."""
    if settings.image_requirements == "ignore" or not names_requirements(plan.spec):
        return []
    enforce = settings.image_requirements == "enforce"
    return check_container(host, plan.spec["process"]["env"], {gpu.number for gpu in gpus}, enforce=enforce)


def _find_claimed(plan: Plan, host: Host, located: Sequence[GpuLocation], settings: Settings) -> Sequence[GpuLocation]:
    """Return the GPUs that the container claims of the tracker: what it has, or all where settings say so."""
    if settings.privileged_claims == "all" and is_privileged(plan.spec):
        return located or _locate_gpus(host)
    return plan.gpus


def _further_refusals(first: ToolkitError, request: GpuRequest | None, host: Host) -> list[RequestError]:
    """Return what else of the user's request cannot be met; the runtime says the first thing only."""
    if not isinstance(first, RequestError) or request is None or not request.visible:
        return []
    start = f"{VISIBLE_DEVICES}={shown(request.visible)}: "
    if first.variable != VISIBLE_DEVICES:
        return []
    problems = resolve(_locate_gpus(host), request.visible, unnumbered=lambda: find_unnumbered_gpus(host)).problems
    found = [RequestError(f"{start}{problem.message}", hint=problem.hint) for problem in problems]
    return [error for error in found if error.message != first.message]


def find_given(spec: dict[str, Any], host: Host, located: Sequence[GpuLocation], granted: Grant) -> list[GpuLocation]:
    """Return the GPUs that a spec opens to its container beside those that are granted."""
    gpus = located or (_locate_gpus(host) if names_gpus(spec) else [])
    numbers = {gpu.number for gpu in granted.gpus}
    return [gpu for gpu in gpus_in_spec(spec, gpus) if gpu.number not in numbers]


def _plan_edits(plan: Plan, host: Host, settings: Settings, *, has_claim: bool) -> Plan:
    nodes = find_device_nodes(host, plan.granted.gpus)
    closed = closed_nodes(nodes, plan.spec)
    state = open_state(host, read_environment())
    edits = build_edits(
        nodes,
        keep_host_mode=settings.device_mode == "host",
        sources=_sources(closed, host, settings),
        poststop=[release_hook(host, state.run_directory if state.is_rootless else "")] if has_claim else (),
        vram_mb=plan.granted.vram.mib if plan.granted.vram else 0,
        vram_total_mb=memory_of(plan.granted),
        vram_headroom_mb=settings.swarm_vram_headroom,
    )
    add_edits(plan.spec, edits)
    keep_last_request(plan.spec)
    if plan.granted.choice:
        name_chosen_gpus(plan.spec, plan.granted.gpus)
    if plan.request and plan.request.job and plan.granted.gpus:
        remove_filters(plan.spec, plan.request.job, settings)
    note = closed_nodes_note(closed, plan.spec)
    return plan.replace(nodes=tuple(nodes), edits=edits, notes=(*plan.notes, *([note] if note else [])))


def _sources(closed: Sequence[DeviceNode], host: Host, settings: Settings) -> dict[str, str]:
    """Return the private nodes that the runtime would have made."""
    if settings.device_mode == "host" or is_user_namespace():
        return {}
    return {node.path: f"{host.path(PRIVATE_NODES)}/{node.major}:{node.minor}" for node in closed}


def _locate_gpus(host: Host) -> list[GpuLocation]:
    try:
        return locate_gpus(host)
    except DriverUnavailable:
        return []


def _not_permitted(settings: Settings) -> str:
    policy = settings.visible_devices_env
    return f"{VISIBLE_DEVICES} and Swarm resources are ignored because visible-devices-env is {policy}"
