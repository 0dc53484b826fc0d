"""The explanation of one container's request, as a value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amd_ctk.engines.engine_words import DOCKER
from amd_ctk.explain.container import Container
from amd_ctk.explain.engine_spec import EngineSpec, build_spec
from amd_ctk.explain.engine_view import (
    RuntimeView,
    add_info,
    find_runtime,
    is_by_systemd,
    translate_gpus,
    without_dropped,
)
from amd_ctk.explain.host_nodes import DXG
from amd_ctk.explain.plan import (
    Plan,
    find_given,
    find_located,
    find_refusals,
    preview_start,
    starting,
)
from amd_ctk.explain.unread_requests import find_unread_requests
from amd_ctk.explain.usable import UsableGpus, find_listed, find_usable, names_of_image, with_host_nodes
from amd_ctk.explain.variables import Meaning, describe_variables
from amd_ctk.rocm_variables import see_gpus
from amd_device_spec.request import VISIBLE_DEVICES
from amd_device_spec.settings import read_settings
from amd_device_spec.slurm.job_gpus import find_gpus_of_job
from amd_gpu_tracker import claim_nodes, may_be_tracking
from amd_gpu_tracker.claims.hook_entries import refuse_unlimited
from amdgpu_discovery.choices.oci_spec import Grant
from amdgpu_discovery.choices.selection import asks_for_nothing
from amdgpu_discovery.discover import find_processors
from amdgpu_discovery.errors import RequestError, ToolkitError
from amdgpu_discovery.gpu import GpuLocation
from amdgpu_discovery.health.reading import read_health
from amdgpu_discovery.host import Host
from amdgpu_discovery.numbering import hidden_numbers
from amdgpu_discovery.requirements.check import check_image
from amdgpu_discovery.requirements.facts import RequirementError
from amdgpu_discovery.value import Value


class Explanation(Value):
    """What each variable means, what the container gets, and what prevents it."""

    lines: tuple[Meaning, ...]
    plan: Plan
    # In the order in which HIP counts them.
    hip_gpus: tuple[GpuLocation, ...] = ()
    notes: tuple[str, ...] = ()
    # What has no effect, or not the intended one.
    problems: tuple[str, ...] = ()

    # The paths of the DRM nodes that only volumes bring, by their minor numbers.
    volume_paths: dict[int, str] = {}  # noqa: RUF012 - values are immutable, and it is never changed
    # The GPUs whose nodes programs inside may open.
    usable: tuple[GpuLocation, ...] = ()
    # Whether a container that asks for GPUs starts without one that it can use.
    lacks_gpus: bool = False
    # Why it is not known which GPUs the container gets, "" if it is known.
    unknown: str = ""

    @property
    def starts(self) -> bool:
        """Return whether the container would start."""
        return not self.plan.refusals


def explain_container(container: Container, host: Host) -> Explanation:
    """Return what a container that is described in words would get; ToolkitError if the host cannot be read."""
    container = _complete(container, host)
    built = build_spec(container, host)
    view = find_runtime(container, host)
    container = container.replace(runtime=view.name)
    if view.is_amd_runtime:
        explanation = explain_spec(built.spec, host, container=container)
    else:
        explanation = _explain_without_runtime(built, host, view, container)
    return _with_findings(explanation, built, view, container, host)


def _complete(container: Container, host: Host) -> Container:
    """Return a container with what the engine and its settings on this host add."""
    container = translate_gpus(without_dropped(add_info(container, host)), host)
    if not (container.settings or container.is_podman_api):
        return container
    # Only what Podman starts needs it.
    from amd_ctk.explain.podman_settings import add_settings

    return add_settings(container, host)


def _with_findings(
    explanation: Explanation, built: EngineSpec, view: RuntimeView, container: Container, host: Host
) -> Explanation:
    """Return the explanation of a spec with what the engine adds to it: refusals, problems, notes and doubts."""
    problems = (*container.problems, *_find_unread(container, explanation, view), *explanation.problems)
    # The engine looks at devices before it calls the runtime.
    of_engine = [view.refusal] if view.refusal and view.is_amd_runtime else []
    refusals = (*container.refusals, *of_engine, *built.refusals, *explanation.plan.refusals)
    plan = explanation.plan.replace(refusals=refusals)
    located = find_located(host)
    listed = [] if plan.refusals else find_listed(plan, container, located)
    notes = (*container.notes, *explanation.notes, *_notes_of(container, explanation, listed))
    # The daemon is not in the cgroup of its caller.
    if container.engine == DOCKER and hidden_numbers(located):
        notes += ("Docker's daemon starts the container, and may use GPUs that are hidden from this process",)
    asks = _requests_gpus(container) or container.gpus or problems or explanation.plan.gpus
    unknown = container.late if _is_undecided(container, explanation, view) else ""
    if container.wrapper:
        wrapper = f"{container.wrapper} is a script, which is not read here and may add options"
        notes += (wrapper,)
        unknown = unknown or ("" if explanation.usable else wrapper)
    return explanation.replace(
        plan=plan,
        lines=tuple(line for line in explanation.lines if not (unknown and line.subject == VISIBLE_DEVICES)),
        notes=notes,
        problems=problems,
        lacks_gpus=bool(asks) and not (explanation.usable or unknown),
        unknown=unknown,
    )


def _find_unread(container: Container, explanation: Explanation, view: RuntimeView) -> list[str]:
    """Return a sentence about each request for GPUs that nothing reads."""
    problems = []
    if view.problem and not view.is_amd_runtime and _requests_gpus(container):
        problems.append(f"{VISIBLE_DEVICES} is not read: {view.problem}")
    if not explanation.usable:
        # A refusal says what to do about the runtime.
        has_runtime = view.is_amd_runtime or view.refusal is not None
        problems += find_unread_requests(container, has_runtime=has_runtime)
    return problems


def _is_undecided(container: Container, explanation: Explanation, view: RuntimeView) -> bool:
    """Return whether an engine that does not answer decides: by the image's variables, or by its version."""
    if explanation.usable or explanation.plan.refusals or container.refusals:
        return False
    is_named = any(entry.startswith(f"{VISIBLE_DEVICES}=") for entry in container.variables)
    return bool(container.gpus) or (view.is_amd_runtime and bool(container.image) and not is_named)


def explain_spec(
    spec: dict[str, Any], host: Host, *, container_id: str = "", root: str = "", container: Container | None = None
) -> Explanation:
    """Return what the runtime would do with a container of this spec; SettingsError, SpecError.

    `container` is what an engine made the spec from, if known. `container_id` and `root` are of a running container.
    """
    plan = preview_start(
        spec,
        host,
        read_settings(host),
        container_id=container_id,
        root=root,
        by_systemd=is_by_systemd(container, host) if container else None,
        is_rootless=container is not None and container.is_rootless,
    )
    return _explain(plan, spec, host, container)


def _explain(
    plan: Plan, spec: dict[str, Any], host: Host, container: Container | None, *, is_read: bool = True
) -> Explanation:
    if container and container.privileged:
        plan = with_host_nodes(plan, find_located(host))
    usable = find_usable(plan, container, host) if container else UsableGpus(gpus=tuple(plan.gpus))
    # The plan's environment lacks the filters that the runtime removes.
    entries = plan.spec.get("process", {}).get("env") or []
    environment = dict(entry.partition("=")[::2] for entry in entries)
    inside = see_gpus(usable.gpus, environment, processors=find_processors(host, usable.gpus))
    lines = describe_variables(spec, plan, inside, located=_locate_for(plan, host), is_read=is_read)
    return Explanation(
        lines=tuple(lines),
        plan=plan,
        hip_gpus=inside.hip_gpus,
        usable=() if inside.problem else tuple(usable.gpus),
        notes=(*plan.notes, *_notes_of_health(host, plan.gpus)),
        problems=(*usable.problems, *filter(None, [inside.problem])),
        volume_paths=usable.volume_paths,
    )


def _locate_for(plan: Plan, host: Host) -> list[GpuLocation]:
    """Return the GPUs that a container may name: those of its job if it belongs to one."""
    located = find_located(host)
    if plan.request is None or plan.request.job is None or plan.refusals:
        return located
    return find_gpus_of_job(plan.request.job, located, host)


def _explain_without_runtime(built: EngineSpec, host: Host, view: RuntimeView, container: Container) -> Explanation:
    located = find_located(host)
    try:
        given = find_given(built.spec, host, located, Grant(gpus=()))
    except ToolkitError:
        given = []
    plan = Plan(spec=built.spec, given=tuple(given), refusals=(view.refusal,) if view.refusal else ())
    if built.checks_image:
        try:
            # As the hook of a CDI spec does.
            notes = check_image(host, plan.spec, plan.gpus, setting=read_settings(host).image_requirements)
            plan = plan.replace(notes=(*plan.notes, *notes))
        except RequirementError as error:
            plan = plan.replace(refusals=(*plan.refusals, error))
    claim = None
    if built.is_claimed and plan.given and may_be_tracking(host):
        claim = claim_nodes(host, starting("", plan.spec), located=located)
        plan = plan.replace(refusals=(*plan.refusals, *find_refusals(claim)))
    if built.requires_limit:
        try:
            refuse_unlimited(plan.spec, is_alone=claim is not None and claim.is_alone())
        except RequestError as error:
            plan = plan.replace(refusals=(*plan.refusals, error))
    return _explain(plan, built.spec, host, container, is_read=False)


def _requests_gpus(container: Container) -> bool:
    variables = dict(entry.partition("=")[::2] for entry in container.variables)
    if VISIBLE_DEVICES in variables:
        return not asks_for_nothing(variables[VISIBLE_DEVICES])
    return any(name.startswith("DOCKER_RESOURCE_") for name in variables)


def _notes_of_health(host: Host, gpus: Sequence[GpuLocation]) -> list[str]:
    """Return which of a container's GPUs are sick or suspect, and why."""
    if not gpus:
        return []
    limits = read_settings(host).choice_rules().limits
    health = read_health(host, [str(gpu.pci_address) for gpu in gpus], limits=limits)
    found = [(gpu, health[str(gpu.pci_address)]) for gpu in gpus]
    # A number may be another GPU's since one was lost.
    return [
        f"GPU {gpu.number} at {gpu.pci_address} is {of.verdict}: {'; '.join(of.reasons)}"
        for gpu, of in found
        if of.verdict
    ]


def _notes_of(container: Container, explanation: Explanation, listed: Sequence[GpuLocation]) -> list[str]:
    notes = []
    used = {gpu.render_minor for gpu in explanation.usable}
    if not explanation.problems and any(gpu.render_minor not in used for gpu in listed):
        notes.append(f"rocm-smi inside lists {len(listed)} GPUs, but only {len(used)} can be used")
    if container.privileged and not explanation.problems:
        notes.append("a privileged container can use every GPU of the host, whatever it asks for")
    notes += [f"{option} is not read here, and may change which GPUs the container gets" for option in container.unread]
    if any(device.startswith(DXG) for device in container.devices):
        notes.append(f"{DXG} is the GPU of Windows, and whether ROCm can use it is not known here")
    reported = () if explanation.usable else container.misplaced
    behind = [option for option in container.behind if option not in reported]
    notes += [f"{option} comes after the image: its program gets it, and not {container.engine}" for option in behind]
    # In a user namespace of its own, no number from inside is that of the host's group.
    advice = "it opens no node of the host" if container.is_rootless else "use its number"
    notes += [f"{name} is a name in the image, which is not read here: {advice}" for name in names_of_image(container)]
    if container.image and not container.is_image_known:
        notes.append(f"the environment of the image {container.image} is not known here")
    return notes
