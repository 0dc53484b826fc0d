"""Give a container the GPUs it asks for before it is made: the one story, top to bottom."""

from __future__ import annotations

from amd_container_runtime.bundle import Bundle
from amd_device_spec.host_grant import grant_on_host
from amd_device_spec.oci import apply_edits, build_edits
from amd_device_spec.oci_annotation import remove_edits
from amd_device_spec.request import VISIBLE_DEVICES, is_permitted, keep_last_request, requested_gpus
from amd_device_spec.user_namespace import closed_nodes, closed_nodes_note, is_user_namespace
from amd_gpu_tracker.records.policy import may_be_tracking
from amdgpu_discovery.device_nodes import find_device_nodes
from amdgpu_discovery.errors import FileError, SpecError, ToolkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from amd_container_runtime.arguments import Call
    from amd_container_runtime.claim import PendingClaim
    from amd_container_runtime.report import Log
    from amd_device_spec.grant import Grant
    from amd_device_spec.oci import Edits
    from amd_device_spec.request import GpuRequest
    from amd_device_spec.settings import Settings
    from amdgpu_discovery.gpu import DeviceNode
    from amdgpu_discovery.host import Host


def add_requested_gpus(call: Call, host: Host, settings: Settings, log: Log) -> dict[str, Any]:
    """Edit the bundle so that its container has all the GPUs it asks for, and return its spec.

    ToolkitError where that cannot be, and the bundle as it was.
    """
    bundle = Bundle(call.bundle, call.config)
    try:
        _add(bundle, call, host, settings, log)
    except SpecError as error:
        raise FileError(f"the bundle's {bundle.path} is not a spec: {error.message}", hint=error.hint) from error
    return bundle.spec


def _add(bundle: Bundle, call: Call, host: Host, settings: Settings, log: Log) -> None:
    request = _permitted(requested_gpus(bundle.spec, settings), bundle, call, settings, log)
    # What an earlier start put in is neither asked for nor given by the engine.
    removed = remove_edits(bundle.spec)
    granted, claim = _grant(request, call, host, bundle, settings)
    try:
        nodes = find_device_nodes(host, granted.gpus)
        closed = closed_nodes(nodes, bundle.spec)
        sources = _open_sources(closed, host, settings)
        changed = apply_edits(bundle.spec, _edits(nodes, sources, granted, claim, settings)) or removed
        if keep_last_request(bundle.spec) or changed:
            bundle.write()
        # Where it is refused because it runs already, runc says so, and its bundle and its GPUs stay as they are.
        is_given = claim is None or claim.reserve()
        if is_given:
            bundle.commit()
    except BaseException:
        if claim is not None:
            _withdraw(claim)
        raise
    finally:
        bundle.discard()
    if request and is_given:
        _log_grant(granted, closed_nodes_note(closed, bundle.spec), call, log)


def _withdraw(claim: PendingClaim) -> None:
    """Give back what was reserved; where that fails it is given back by this process's end."""
    try:
        claim.withdraw()
    except (OSError, ToolkitError):
        return


def _permitted(
    request: GpuRequest | None, bundle: Bundle, call: Call, settings: Settings, log: Log
) -> GpuRequest | None:
    """Return the request if this host lets containers ask by environment, else None."""
    if request is None or is_permitted(bundle.spec, settings):
        return request
    policy = settings.visible_devices_env
    log.write(
        "warn",
        f"{VISIBLE_DEVICES} and Swarm resources are ignored because visible-devices-env is {policy}",
        container=call.container_id,
    )
    return None


def _grant(
    request: GpuRequest | None, call: Call, host: Host, bundle: Bundle, settings: Settings
) -> tuple[Grant, PendingClaim | None]:
    """Return which GPUs the container gets, and what it has to reserve or, of memory, has reserved."""
    tracked = may_be_tracking(host)
    granted, gpus = grant_on_host(request, host, settings)
    if granted.vram:
        from amd_container_runtime.memory_claim import reserve_memory

        return reserve_memory(call, host, bundle, granted, granted.vram)
    if not tracked:
        return granted, None
    # A container that asked for nothing may have been given GPUs by its engine.
    from amd_container_runtime.claim import make_claim

    return granted, make_claim(call, host, bundle, granted=granted, gpus=gpus)


def _open_sources(closed: Sequence[DeviceNode], host: Host, settings: Settings) -> dict[str, str]:
    """Return by their paths what is bound in place of nodes that would be closed, {} where nothing can be."""
    if not closed or settings.device_mode == "host" or is_user_namespace():
        return {}
    from amd_container_runtime.private_nodes import make_private_nodes

    return make_private_nodes(host, closed)


def _edits(
    nodes: Sequence[DeviceNode],
    sources: Mapping[str, str],
    granted: Grant,
    claim: PendingClaim | None,
    settings: Settings,
) -> Edits:
    return build_edits(
        nodes,
        keep_host_mode=settings.device_mode == "host",
        sources=sources,
        poststop=claim.poststop_hooks if claim else (),
        vram_mb=granted.vram.megabytes if granted.vram else 0,
    )


def _log_grant(granted: Grant, closed_nodes: str, call: Call, log: Log) -> None:
    for note in filter(None, (*granted.notes, closed_nodes)):
        log.write("warn", note, container=call.container_id)
    numbers = f"[{' '.join(str(gpu.number) for gpu in granted.gpus)}]"
    log.write("info", "Requested GPUs for container", gpu_indices=numbers, container=call.container_id)
