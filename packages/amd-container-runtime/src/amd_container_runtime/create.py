"""Gives a container the GPUs it asks for before it is created: all steps, in order."""

from __future__ import annotations

import posix

from amd_device_spec.oci import is_edited
from amd_device_spec.start.plan import edit_spec, plan_start
from amd_gpu_tracker import may_be_draining, may_be_tracking
from amdgpu_discovery.choices.oci_spec import names_requirements, read_spec
from amdgpu_discovery.errors import FileError, SpecError, ToolkitError, reason
from amdgpu_discovery.files import absolute, directory_of, put_in_place, resolve_links, write_beside
from amdgpu_discovery.untrusted.plain_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from amd_container_runtime.report import Log
    from amd_container_runtime.runc import Call
    from amd_device_spec.settings import Settings
    from amd_device_spec.start.plan import EditedSpec, StartPlan
    from amd_gpu_tracker import ContainerClaim
    from amdgpu_discovery.gpu import DeviceNode, GpuLocation
    from amdgpu_discovery.host import Host


class Bundle:
    """A bundle's config.json: read once, edited in `spec`, written to a temporary file and put in place.

    Errors are FileError and name the file.
    """

    def __init__(self, directory: str, config: str = "config.json") -> None:
        self.path = resolve_links(config if config.startswith("/") else f"{directory}/{config}")
        self.spec = read_spec(
            self.path, name=f"the bundle's {self.path}", hint="name the bundle's directory with --bundle"
        )
        self._temporary = ""

    def write(self) -> None:
        """Write the edited spec beside the file, so that a full disk is noticed before anything else is done."""
        try:
            self._temporary = write_beside(self.path, dumps(self.spec), durable=False)
        except OSError as error:
            raise FileError(f"{self.path} cannot be written: {reason(error)}") from error
        except (ValueError, RecursionError) as error:
            # Reading accepts more than writing: 1e999 is infinity to Python, and reading goes a little deeper.
            words = "they are nested too deeply" if isinstance(error, RecursionError) else error
            raise FileError(
                f"the bundle's {self.path} contains values that cannot be written again: {words}"
            ) from error

    def commit(self) -> None:
        """Replace config.json by what `write` wrote, if it was called."""
        temporary, self._temporary = self._temporary, ""
        try:
            if temporary:
                put_in_place(temporary, self.path)
        except OSError as error:
            raise FileError(f"{self.path} cannot be replaced: {reason(error)}") from error

    def discard(self) -> None:
        """Delete what `write` wrote, unless `commit` used it; config.json is unchanged."""
        if self._temporary:
            posix.unlink(self._temporary)
            self._temporary = ""


class Start:
    """One start of a container: the call, its host and settings, its bundle, and the program that creates it."""

    def __init__(self, call: Call, host: Host, settings: Settings, log: Log, program: str) -> None:
        self.program = program
        self.call = call
        self.host = host
        self.settings = settings
        self.log = log
        self.bundle = Bundle(call.bundle, call.config)
        self.spec = self.bundle.spec

    def write_log(self, level: str, message: str, **fields: object) -> None:
        """Write a line about this container to the log."""
        self.log.write(level, message, **fields, container=self.call.container_id)


def add_requested_gpus(call: Call, host: Host, settings: Settings, log: Log, program: str) -> dict[str, Any]:
    """Edit the bundle so that its container, made by `program`, gets all the GPUs it asks for; return its spec.

    Raises ToolkitError if that is impossible, and leaves the bundle unchanged.
    """
    start = Start(call, host, settings, log, program)
    try:
        _add(start)
    except SpecError as error:
        raise FileError(f"the bundle's {start.bundle.path} is not a spec: {error.message}", hint=error.hint) from error
    return start.spec


def _add(start: Start) -> None:
    plan = plan_start(
        start.spec, start.host, start.settings, skip_drained=_skip_drained, refuse_old_numbers=_refuse_old_numbers
    )
    if plan.request is None:
        _log_notes(start, plan.notes)
    # Edits of an earlier start are neither part of the request nor given by the engine.
    changed = _remove_earlier_edits(start.spec)
    claim = _claim(start, plan)
    try:
        if claim and plan.needs_tracker:
            claim.reserve()
            plan = plan.with_gpus(claim.gpus)
        _check_image(start, plan, claim)
        edited = _edit(start, plan, claim)
        if changed or edited.is_changed:
            start.bundle.write()
        # False if the container already runs. runc reports that, and the bundle and its GPUs stay as they are.
        is_given = claim is None or claim.reserve()
        if is_given:
            start.bundle.commit()
    except BaseException:
        _withdraw(claim)
        raise
    finally:
        start.bundle.discard()
    if plan.request and is_given:
        _log_notes(start, (*plan.notes, *edited.notes))
        _log_grant(start, plan)
    if claim and is_given and not plan.needs_tracker:
        for sentence in claim.find_unreserved_use():
            start.write_log("warn", sentence)


def _edit(start: Start, plan: StartPlan, claim: ContainerClaim | None) -> EditedSpec:
    return edit_spec(
        start.spec,
        plan,
        start.host,
        start.settings,
        bind=lambda closed: _open_sources(start, closed),
        poststop=claim.poststop_hooks if claim else (),
        vram_total_mb=claim.vram_total_mb if claim else 0,
        part_mb=claim.read_part() if claim else 0,
        runtime=start.program,
        by_systemd=start.call.systemd_cgroup,
        is_alone=lambda: claim is not None and claim.is_alone(),
    )


def _skip_drained(host: Host, request: str, gpus: Sequence[GpuLocation]) -> Sequence[GpuLocation]:
    if not may_be_draining(host):
        return gpus
    from amd_gpu_tracker.claims.draining import skip_drained

    return skip_drained(host, request, gpus)


def _refuse_old_numbers(host: Host, asked: Sequence[str]) -> None:
    if may_be_tracking(host):
        from amd_gpu_tracker.book.numbers import refuse_old_numbers

        refuse_old_numbers(host, asked)


def _remove_earlier_edits(spec: dict[str, Any]) -> bool:
    if not is_edited(spec):
        return False
    # Engines create a container once, except for restarts.
    from amd_device_spec.oci_annotation import remove_edits

    return remove_edits(spec)


def _withdraw(claim: ContainerClaim | None) -> None:
    """Release what was reserved. If that fails, the end of this process releases it."""
    try:
        if claim is not None:
            claim.withdraw()
    except (OSError, ToolkitError):
        return


def _claim(start: Start, plan: StartPlan) -> ContainerClaim | None:
    """Return the container's claim, None if it has nothing to reserve."""
    # A container without a request may have GPUs from its engine.
    if not (plan.needs_tracker or may_be_tracking(start.host)):
        return None
    # Most hosts do not track GPUs.
    from amd_gpu_tracker import StartingContainer, claim_grant

    call = start.call
    container = StartingContainer(
        container_id=call.container_id,
        spec=start.spec,
        bundle=directory_of(start.bundle.path),
        root=call.root,
        pid_file=absolute(call.pid_file) if call.pid_file else "",
    )
    return claim_grant(
        start.host,
        container,
        plan.grant,
        located=plan.located,
        asked=plan.asked,
        limits=plan.limits,
        claims_all=start.settings.privileged_claims == "all",
    )


def _check_image(start: Start, plan: StartPlan, claim: ContainerClaim | None) -> None:
    """Refuse a container whose image requires other GPUs, or only log that, as the settings say."""
    if not names_requirements(start.spec):
        return
    # Few images require anything.
    from amdgpu_discovery.requirements.check import check_image

    gpus = claim.gpus if claim else plan.grant.gpus
    _log_notes(start, check_image(start.host, start.spec, gpus, setting=start.settings.image_requirements))


def _open_sources(start: Start, closed: Sequence[DeviceNode]) -> dict[str, str]:
    """Return what to bind instead of nodes that would be closed, by their paths; {} if nothing can be bound."""
    from amd_container_runtime.private_nodes import make_private_nodes

    return make_private_nodes(start.host, closed)


def _log_notes(start: Start, notes: Sequence[str]) -> None:
    for note in notes:
        start.write_log("warn", note)


def _log_grant(start: Start, plan: StartPlan) -> None:
    numbers = f"[{' '.join(str(gpu.number) for gpu in plan.grant.gpus)}]"
    chosen_for = {"chosen_for": plan.grant.choice.text} if plan.grant.choice else {}
    start.write_log("info", "Requested GPUs for container", gpu_indices=numbers, **chosen_for)
