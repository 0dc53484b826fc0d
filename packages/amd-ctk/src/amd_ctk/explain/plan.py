"""What the runtime would make of a container's spec, by its own plan and its own edits, without writing anything.

The GPU Tracker only previews the claim of such a start. A test compares the plan with what `amd-container-runtime
create` writes, for made-up requests on made-up hosts.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from amd_device_spec.oci import PRIVATE_NODES, Edits
from amd_device_spec.oci_annotation import remove_edits
from amd_device_spec.request import VISIBLE_DEVICES, GpuRequest, is_permitted, requested_gpus
from amd_device_spec.settings import Settings
from amd_device_spec.start.plan import StartPlan, edit_spec, plan_start
from amd_gpu_tracker import (
    ContainerClaim,
    StartingContainer,
    claim_grant,
    may_be_tracking,
    refuse_old_numbers,
    skip_drained,
)
from amdgpu_discovery.choices.oci_spec import Grant, gpus_in_spec, names_gpus
from amdgpu_discovery.choices.selection import resolve
from amdgpu_discovery.choices.unknown_gpus import shown
from amdgpu_discovery.discover import find_unnumbered_gpus
from amdgpu_discovery.errors import DriverUnavailable, FileError, RequestError, SpecError, ToolkitError
from amdgpu_discovery.gpu import DeviceNode, GpuLocation
from amdgpu_discovery.host import Host
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.requirements.check import check_image
from amdgpu_discovery.value import Value


class Plan(Value):
    """What a container asks for and would get; `refusals` are why it would not start, the reported one first.

    `spec` is the content of config.json. `request` is None if the container asks for nothing or may not ask.
    """

    request: GpuRequest | None = None
    granted: Grant = Grant(gpus=())
    # What the engine itself put into the spec.
    given: tuple[GpuLocation, ...] = ()
    nodes: tuple[DeviceNode, ...] = ()
    edits: Edits | None = None
    spec: dict[str, Any] = {}  # noqa: RUF012 - a default of a value, which is never changed
    notes: tuple[str, ...] = ()
    refusals: tuple[ToolkitError, ...] = ()

    @property
    def gpus(self) -> list[GpuLocation]:
        """Return every GPU that the container can use, by number."""
        return sorted((*self.granted.gpus, *self.given), key=lambda gpu: gpu.number)


def preview_start(
    spec: dict[str, Any],
    host: Host,
    settings: Settings,
    *,
    container_id: str = "",
    root: str = "",
    by_systemd: bool | None = None,
    is_rootless: bool = False,
) -> Plan:
    """Return what the runtime would do with a container of this spec, which stays unchanged; SpecError, FileError.

    GPUs of a container with this id, and this `--root` of its runtime, count as its own. `by_systemd` is whether
    systemd makes its cgroup; None if only the spec may say so. Its engine may be rootless.
    """
    # The spec that the runtime would write.
    try:
        edited = deepcopy(spec)
    except RecursionError as error:
        raise FileError("the container's config.json is nested too deeply") from error
    remove_edits(edited)
    decided = StartPlan(request=requested_gpus(spec, settings) if is_permitted(spec, settings) else None)
    try:
        decided = plan_start(spec, host, settings, skip_drained=skip_drained, refuse_old_numbers=refuse_old_numbers)
        by_systemd = _is_by_systemd(spec) if by_systemd is None else by_systemd
        container = starting(container_id, edited, root)
        return _preview(decided, host, settings, container, by_systemd=by_systemd, is_rootless=is_rootless)
    except SpecError:
        raise
    except ToolkitError as error:
        refusals = (error, *_further_refusals(error, decided.request, host))
        notes = () if decided.request else decided.notes
        return Plan(request=decided.request, spec=deepcopy(spec), notes=notes, refusals=refusals)


def _preview(
    decided: StartPlan,
    host: Host,
    settings: Settings,
    container: StartingContainer,
    *,
    by_systemd: bool | None,
    is_rootless: bool,
) -> Plan:
    spec = container.spec
    claim = _find_claim(decided, container, host, settings)
    if claim and decided.needs_tracker:
        claim.preview()
        decided = decided.with_gpus(claim.gpus)
    grant = decided.grant
    given = () if decided.needs_tracker else tuple(find_given(spec, host, decided.located, grant))
    gpus = claim.gpus if claim else grant.gpus
    notes = check_image(host, spec, gpus, setting=settings.image_requirements)
    part_mb = claim.read_part() if claim else 0
    edited = edit_spec(
        spec,
        decided,
        host,
        settings,
        # As if the runtime had made these nodes.
        bind=lambda closed: {node.path: f"{host.path(PRIVATE_NODES)}/{node.major}:{node.minor}" for node in closed},
        poststop=claim.poststop_hooks if claim else (),
        vram_total_mb=claim.vram_total_mb if claim else 0,
        part_mb=part_mb,
        runtime=_maker_for(decided, settings, part_mb),
        by_systemd=by_systemd,
        is_preview=True,
        is_rootless=is_rootless,
        is_alone=lambda: claim is not None and claim.is_alone(),
    )
    return Plan(
        request=decided.request,
        granted=grant,
        given=given,
        nodes=edited.nodes,
        edits=edited.edits,
        spec=spec,
        notes=(*decided.notes, *notes, *edited.notes),
        refusals=() if decided.needs_tracker else find_refusals(claim),
    )


def _is_by_systemd(spec: dict[str, Any]) -> bool | None:
    """Return whether systemd makes the cgroup of a spec, None if it names none.

    With systemd, engines write SLICE:PREFIX:NAME, and else a path.
    """
    linux = spec.get("linux")
    path = linux.get("cgroupsPath") if isinstance(linux, dict) else None
    return path.count(":") == 2 if path and isinstance(path, str) else None


def _maker_for(decided: StartPlan, settings: Settings, part_mb: int) -> str:
    """Return the program that makes the container; only a limit on memory depends on it."""
    is_limited = settings.limits_memory or part_mb or decided.grant.vram or (decided.request and decided.request.memory)
    if settings.low_level_runtime or not is_limited:
        return settings.low_level_runtime or "runc"
    # Few containers have a limit.
    from amd_ctk.configuration.runtime_program import usual_runtime

    return usual_runtime()


def starting(container_id: str, spec: dict[str, Any], root: str = "") -> StartingContainer:
    """Return a container as the GPU Tracker sees it at its start."""
    return StartingContainer(container_id=container_id or "(this one)", spec=spec, bundle="", root=root)


def find_refusals(claim: ContainerClaim | None) -> tuple[ToolkitError, ...]:
    """Return why the GPU Tracker would refuse a container's claim."""
    try:
        if claim:
            claim.preview()
    except ToolkitError as error:
        return (error,)
    return ()


def _find_claim(
    decided: StartPlan, container: StartingContainer, host: Host, settings: Settings
) -> ContainerClaim | None:
    """Return the claim that the runtime would make, None if it would make none."""
    if not (decided.needs_tracker or may_be_tracking(host)):
        return None
    return claim_grant(
        host,
        container,
        decided.grant,
        located=decided.located,
        asked=decided.asked,
        limits=decided.limits,
        claims_all=settings.privileged_claims == "all",
    )


def _further_refusals(first: ToolkitError, request: GpuRequest | None, host: Host) -> list[RequestError]:
    """Return the other problems of the user's request; the runtime reports only the first."""
    if not isinstance(first, RequestError) or request is None or not request.visible:
        return []
    start = f"{VISIBLE_DEVICES}={shown(request.visible)}: "
    if first.variable != VISIBLE_DEVICES:
        return []
    problems = resolve(find_located(host), request.visible, unnumbered=lambda: find_unnumbered_gpus(host)).problems
    found = [RequestError(f"{start}{problem.message}", hint=problem.hint) for problem in problems]
    return [error for error in found if error.message != first.message]


def find_located(host: Host) -> list[GpuLocation]:
    """Return the GPUs of a host; none without a driver."""
    try:
        return locate_gpus(host)
    except DriverUnavailable:
        return []


def find_given(spec: dict[str, Any], host: Host, located: Sequence[GpuLocation], granted: Grant) -> list[GpuLocation]:
    """Return the GPUs that a spec opens to its container in addition to the granted ones."""
    gpus = located or (find_located(host) if names_gpus(spec) else [])
    numbers = {gpu.number for gpu in granted.gpus}
    return [gpu for gpu in gpus_in_spec(spec, gpus) if gpu.number not in numbers]
