"""What the runtime would make of a container's spec: its own plan and its own edits, and nothing written.

What a start asks of the GPU Tracker is asked for an answer only. A test holds this against what
`amd-container-runtime create` writes, for made-up requests on made-up hosts.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from amd_device_spec.oci import PRIVATE_NODES, Edits
from amd_device_spec.oci_annotation import remove_edits
from amd_device_spec.request import VISIBLE_DEVICES, GpuRequest, Grant, is_permitted, requested_gpus
from amd_device_spec.settings import Settings
from amd_device_spec.start.plan import StartPlan, edit_spec, plan_start
from amd_gpu_tracker import may_be_tracking
from amd_gpu_tracker.claims.draining import skip_drained
from amd_gpu_tracker.claims.preview import (
    preview_choice,
    preview_memory,
    preview_poststop,
    preview_refusal,
    preview_unreserved,
)
from amd_gpu_tracker.records.numbers import refuse_old_numbers
from amdgpu_discovery.discover import find_unnumbered_gpus
from amdgpu_discovery.errors import DriverUnavailable, FileError, RequestError, SpecError, ToolkitError
from amdgpu_discovery.gpu import MEBIBYTE, DeviceNode, Gpu, GpuLocation
from amdgpu_discovery.host import Host
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.oci_spec import gpus_in_spec, is_privileged, names_gpus, names_requirements
from amdgpu_discovery.requirements.check import check_container
from amdgpu_discovery.selection import resolve
from amdgpu_discovery.unknown_gpus import shown
from amdgpu_discovery.value import Value


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


def preview_start(spec: dict[str, Any], host: Host, settings: Settings, *, container_id: str = "") -> Plan:
    """Return what the runtime would do with a container of this spec, which is not changed; SpecError, FileError."""
    # As it would be written.
    edited = _copy(spec)
    remove_edits(edited)
    decided = StartPlan(request=_permitted_request(spec, settings))
    try:
        decided = plan_start(spec, host, settings)
        return _preview(decided, edited, host, settings, container_id)
    except SpecError:
        raise
    except ToolkitError as error:
        error = _explained(error, decided.request, host)
        refusals = (error, *_further_refusals(error, decided.request, host))
        notes = () if decided.request else decided.notes
        return Plan(request=decided.request, spec=deepcopy(spec), notes=notes, refusals=refusals)


def _explained(error: ToolkitError, request: GpuRequest | None, host: Host) -> ToolkitError:
    """Return why a request cannot be met: where a number is that of a lost GPU, or of one behind it, that."""
    if isinstance(error, RequestError) and request is not None and request.visible:
        try:
            refuse_old_numbers(host, [request.visible])
        except ToolkitError as why:
            return why
    return error


def _permitted_request(spec: dict[str, Any], settings: Settings) -> GpuRequest | None:
    return requested_gpus(spec, settings) if is_permitted(spec, settings) else None


def _copy(spec: dict[str, Any]) -> dict[str, Any]:
    try:
        return deepcopy(spec)
    except RecursionError as error:
        raise FileError("the container's config.json is nested too deeply") from error


def _preview(decided: StartPlan, spec: dict[str, Any], host: Host, settings: Settings, container_id: str) -> Plan:
    decided = _with_chosen_gpus(_without_drained(decided, host, settings), spec, host, settings)
    grant, located = decided.grant, decided.located
    given = () if decided.needs_tracker else tuple(find_given(spec, host, located, grant))
    plan = Plan(request=decided.request, granted=grant, given=given, spec=spec, notes=decided.notes)
    claimed = _find_claimed(plan, host, located, settings)
    # Memory and what is chosen are always reserved; what else is claimed only where it is tracked.
    has_claim = decided.needs_tracker or (may_be_tracking(host) and bool(claimed))
    notes = check_image(plan, host, settings, (*plan.gpus, *(claimed if has_claim else ())))
    edited = edit_spec(
        spec,
        decided,
        host,
        settings,
        bind=lambda closed: _private_nodes(closed, host),
        poststop=preview_poststop(host) if has_claim else (),
        vram_total_mb=_memory_of(grant),
    )
    refusal: ToolkitError | None = preview_unreserved(host, spec) if has_claim else None
    if has_claim and not refusal and not decided.needs_tracker:
        refusal = preview_refusal(host, claimed, container_id, asked=decided.words_of_user(settings))
    return plan.replace(
        nodes=edited.nodes,
        edits=edited.edits,
        notes=(*plan.notes, *notes, *edited.notes),
        refusals=(refusal,) if refusal else (),
    )


def _without_drained(decided: StartPlan, host: Host, settings: Settings) -> StartPlan:
    """Return the plan without drained GPUs that `all` leaves out."""
    asked = decided.request_without_drained(settings)
    return decided.with_gpus(skip_drained(host, asked, decided.grant.gpus)) if asked else decided


def _with_chosen_gpus(decided: StartPlan, spec: dict[str, Any], host: Host, settings: Settings) -> StartPlan:
    """Return the plan with the GPUs that the GPU Tracker would choose now, where it has to choose some."""
    grant = decided.grant
    if grant.vram:
        return decided.with_gpus([preview_memory(spec, host, str(grant.vram), grant.vram.mib)])
    if grant.choice and grant.candidates:
        claims_all = settings.privileged_claims == "all" and is_privileged(spec)
        chosen = preview_choice(
            spec,
            host,
            grant.choice,
            grant.candidates,
            decided.located,
            claims_all=claims_all,
            limits=decided.limits(settings),
        )
        return decided.with_gpus(chosen)
    return decided


def _memory_of(granted: Grant) -> int:
    """Return how much memory the GPU has of which a part is granted, in MiB; 0 where whole GPUs are."""
    gpus = granted.gpus if granted.vram else ()
    return sum((gpu.vram_bytes or 0) // MEBIBYTE for gpu in gpus if isinstance(gpu, Gpu))


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


def _private_nodes(closed: Sequence[DeviceNode], host: Host) -> dict[str, str]:
    """Return the private nodes that the runtime would have made."""
    return {node.path: f"{host.path(PRIVATE_NODES)}/{node.major}:{node.minor}" for node in closed}


def _locate_gpus(host: Host) -> list[GpuLocation]:
    try:
        return locate_gpus(host)
    except DriverUnavailable:
        return []
