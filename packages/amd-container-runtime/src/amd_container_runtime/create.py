"""Give a container the GPUs it asks for before it is made: the one story, top to bottom."""

from __future__ import annotations

import posix

from amd_device_spec.grant import grant_on_host
from amd_device_spec.oci import VRAM_VARIABLES, add_edits, build_edits, is_edited
from amd_device_spec.request import VISIBLE_DEVICES, is_permitted, keep_last_request, name_chosen_gpus, requested_gpus
from amd_gpu_tracker import may_be_tracking
from amdgpu_discovery.device_nodes import closed_nodes, closed_nodes_note, find_device_nodes
from amdgpu_discovery.errors import FileError, SpecError, ToolkitError, reason
from amdgpu_discovery.files import absolute, behind_links, directory_of, put_in_place, write_beside
from amdgpu_discovery.host import is_user_namespace
from amdgpu_discovery.oci_spec import names_requirements, read_spec
from amdgpu_discovery.plain_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from amd_container_runtime.report import Log
    from amd_container_runtime.runc import Call
    from amd_device_spec.grant import Grant
    from amd_device_spec.oci import Edits
    from amd_device_spec.request import GpuRequest
    from amd_device_spec.settings import Settings
    from amd_device_spec.slurm_job import Job
    from amd_gpu_tracker import ContainerClaim
    from amdgpu_discovery.gpu import DeviceNode, GpuLocation
    from amdgpu_discovery.host import Host


class Bundle:
    """A bundle's config.json: read once, edited in `spec`, written beside and put in place.

    Errors are FileError and name the file.
    """

    __slots__ = ("_temporary", "path", "spec")

    def __init__(self, directory: str, config: str = "config.json") -> None:
        self.path = behind_links(config if config.startswith("/") else f"{directory}/{config}")
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
            # Read it can be: 1e999 is infinity to python, and reading goes a little deeper than writing.
            raise FileError(
                f"the bundle's {self.path} contains values that cannot be written again: {error}"
            ) from error

    def commit(self) -> None:
        """Put what `write` wrote, if it was called, in place of config.json."""
        temporary, self._temporary = self._temporary, ""
        try:
            if temporary:
                put_in_place(temporary, self.path)
        except OSError as error:
            raise FileError(f"{self.path} cannot be replaced: {reason(error)}") from error

    def discard(self) -> None:
        """Forget what `write` wrote and `commit` did not take; config.json is as it was."""
        if self._temporary:
            posix.unlink(self._temporary)
            self._temporary = ""


class Start:
    """One start of a container: what the call says, where it happens, and what is found out on the way."""

    __slots__ = ("bundle", "call", "host", "log", "settings", "spec")

    def __init__(self, call: Call, host: Host, settings: Settings, log: Log) -> None:
        self.call = call
        self.host = host
        self.settings = settings
        self.log = log
        self.bundle = Bundle(call.bundle, call.config)
        self.spec = self.bundle.spec

    def say(self, level: str, message: str, **fields: object) -> None:
        """Write a line about this container to the log."""
        self.log.write(level, message, **fields, container=self.call.container_id)


def add_requested_gpus(call: Call, host: Host, settings: Settings, log: Log) -> dict[str, Any]:
    """Edit the bundle so that its container has all the GPUs it asks for, and return its spec.

    ToolkitError where that cannot be, and the bundle as it was.
    """
    start = Start(call, host, settings, log)
    try:
        _add(start)
    except SpecError as error:
        raise FileError(f"the bundle's {start.bundle.path} is not a spec: {error.message}", hint=error.hint) from error
    return start.spec


def _add(start: Start) -> None:
    request = _permitted(start, requested_gpus(start.spec, start.settings))
    # What an earlier start put in is neither asked for nor given by the engine.
    changed = _remove_earlier_edits(start.spec)
    granted, claim = _grant(start, request)
    try:
        _check_image(start, granted, claim)
        nodes = find_device_nodes(start.host, granted.gpus)
        closed = closed_nodes(nodes, start.spec)
        changed = add_edits(start.spec, _edits(start, nodes, closed, granted, claim)) or changed
        if request and request.job and granted.gpus:
            changed = _remove_filters(start, request.job) or changed
        changed = keep_last_request(start.spec) or changed
        if granted.choice:
            changed = name_chosen_gpus(start.spec, granted.gpus)
        if changed:
            start.bundle.write()
        # Where it is refused because it runs already, runc says so, and its bundle and its GPUs stay as they are.
        is_given = claim is None or claim.reserve()
        if is_given:
            start.bundle.commit()
    except BaseException:
        _withdraw(claim)
        raise
    finally:
        start.bundle.discard()
    if request and is_given:
        _log_grant(start, granted, closed_nodes_note(closed, start.spec))


def _remove_filters(start: Start, job: Job) -> bool:
    # Few containers are started by Slurm.
    from amd_device_spec.slurm.filters import remove_filters

    return remove_filters(start.spec, job, start.settings)


def _remove_earlier_edits(spec: dict[str, Any]) -> bool:
    if not is_edited(spec):
        return False
    # Engines make a container once, but for restarts.
    from amd_device_spec.oci_annotation import remove_edits

    return remove_edits(spec)


def _withdraw(claim: ContainerClaim | None) -> None:
    """Release what was reserved; where that fails it is released by this process's end."""
    try:
        if claim is not None:
            claim.withdraw()
    except (OSError, ToolkitError):
        return


def _permitted(start: Start, request: GpuRequest | None) -> GpuRequest | None:
    """Return the request if this host lets containers ask by environment, else None."""
    if request is None or is_permitted(start.spec, start.settings):
        return request
    policy = start.settings.visible_devices_env
    start.say("warn", f"{VISIBLE_DEVICES} and Swarm resources are ignored because visible-devices-env is {policy}")
    return None


def _grant(start: Start, request: GpuRequest | None) -> tuple[Grant, ContainerClaim | None]:
    """Return which GPUs the container gets, and what it has to reserve or, of memory, has reserved."""
    tracked = may_be_tracking(start.host)
    granted, gpus = grant_on_host(request, start.host, start.settings)
    # A container that asked for nothing may have been given GPUs by its engine.
    claim = _claim(start, granted, gpus) if tracked or granted.vram or granted.candidates else None
    if granted.vram and claim:
        _drop_limits_of_others(start.spec)
    if (granted.vram or granted.candidates) and claim:
        granted = granted.replace(gpus=claim.gpus)
    return granted, claim


def _claim(start: Start, granted: Grant, gpus: Sequence[GpuLocation]) -> ContainerClaim | None:
    # Most hosts do not track GPUs.
    from amd_gpu_tracker import StartingContainer, claim_container

    call = start.call
    container = StartingContainer(
        container_id=call.container_id,
        spec=start.spec,
        bundle=directory_of(start.bundle.path),
        root=call.root,
        pid_file=absolute(call.pid_file) if call.pid_file else "",
    )
    vram_mb = granted.vram.mib if granted.vram else 0
    return claim_container(
        start.host,
        container,
        granted=granted.gpus,
        located=gpus,
        kinds=granted.kinds,
        vram_mb=vram_mb,
        choice=granted.choice,
        candidates=granted.candidates,
        privileged_claims_all=start.settings.privileged_claims == "all",
    )


def _check_image(start: Start, granted: Grant, claim: ContainerClaim | None) -> None:
    """Refuse a container whose image requires other GPUs, or note it."""
    if not names_requirements(start.spec):
        return
    # Few images require anything.
    from amd_container_runtime.image_requirements import check_image

    for note in check_image(start.host, start.spec, start.settings, claim.gpus if claim else granted.gpus):
        start.say("warn", note)


def _drop_limits_of_others(spec: dict[str, Any]) -> None:
    """Leave no memory limit in the environment that an image or a user wrote there."""
    environment = spec["process"]["env"]
    environment[:] = [variable for variable in environment if variable.partition("=")[0] not in VRAM_VARIABLES]


def _edits(
    start: Start,
    nodes: Sequence[DeviceNode],
    closed: Sequence[DeviceNode],
    granted: Grant,
    claim: ContainerClaim | None,
) -> Edits:
    return build_edits(
        nodes,
        keep_host_mode=start.settings.device_mode == "host",
        sources=_open_sources(start, closed),
        poststop=claim.poststop_hooks if claim else (),
        vram_mb=granted.vram.mib if granted.vram else 0,
        vram_total_mb=claim.vram_total_mb if claim else 0,
        vram_headroom_mb=start.settings.swarm_vram_headroom,
    )


def _open_sources(start: Start, closed: Sequence[DeviceNode]) -> dict[str, str]:
    """Return by their paths what is bound in place of nodes that would be closed, {} where nothing can be."""
    if not closed or start.settings.device_mode == "host" or is_user_namespace():
        return {}
    from amd_container_runtime.private_nodes import make_private_nodes

    return make_private_nodes(start.host, closed)


def _log_grant(start: Start, granted: Grant, closed_nodes: str) -> None:
    for note in filter(None, (*granted.notes, closed_nodes)):
        start.say("warn", note)
    numbers = f"[{' '.join(str(gpu.number) for gpu in granted.gpus)}]"
    chosen_for = {"chosen_for": granted.choice.text} if granted.choice else {}
    start.say("info", "Requested GPUs for container", gpu_indices=numbers, **chosen_for)
