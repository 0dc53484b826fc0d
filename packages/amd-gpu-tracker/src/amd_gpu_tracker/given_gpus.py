"""Which GPUs a container is given by the device nodes in its OCI spec, and whether its processes die with its init."""

from __future__ import annotations

from amdgpu_discovery.drm import DRM_MAJOR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from amdgpu_discovery.gpu import GpuLocation


def gpus_given(spec: dict[str, Any], gpus: Sequence[GpuLocation]) -> list[GpuLocation]:
    """Return the GPUs of which a spec lists a render or card node."""
    minors = drm_minors(spec)
    return [gpu for gpu in gpus if gpu.render_minor in minors or gpu.card_minor in minors]


def drm_minors(spec: dict[str, Any]) -> set[object]:
    """Return the minor numbers of the render and card nodes, of whatever vendor, that a spec lists."""
    linux = spec.get("linux")
    devices = linux.get("devices") if isinstance(linux, dict) else None
    return {
        device.get("minor")
        for device in (devices if isinstance(devices, list) else [])
        if isinstance(device, dict) and device.get("major") == DRM_MAJOR
    }


def allows_every_device(spec: dict[str, Any]) -> bool:
    """Return whether the device cgroup lets a container use whatever there is, as `--privileged` has it.

    A capability says less: who adds CAP_SYS_ADMIN and a GPU's node has asked for that GPU.
    """
    linux = spec.get("linux")
    resources = linux.get("resources") if isinstance(linux, dict) else None
    rules = resources.get("devices") if isinstance(resources, dict) else None
    general = [
        rule
        for rule in (rules if isinstance(rules, list) else [])
        if isinstance(rule, dict) and rule.get("major") is None and rule.get("type") in (None, "a")
    ]
    return bool(general) and general[-1].get("allow") is True


def shared_cgroup(spec: dict[str, Any], container_id: str) -> str:
    """Return the cgroup of a container that has no pid namespace of its own, "" for all others."""
    linux = spec.get("linux")
    if not isinstance(linux, dict):
        return ""
    for namespace in linux.get("namespaces") or []:
        if isinstance(namespace, dict) and namespace.get("type") == "pid" and not namespace.get("path"):
            return ""
    # Without a path runc names the cgroup after the container.
    return str(linux.get("cgroupsPath") or f"/{container_id}")
