"""Which GPUs an OCI spec opens to a container without being asked by name, and do its processes die with its init?"""

from __future__ import annotations

from amdgpu_discovery.drm import DRM_MAJOR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from amdgpu_discovery.gpu import GpuLocation


# What Docker and Podman write for the * of `--device-cgroup-rule`; other engines leave the number out.
ANY = (None, -1)


def gpus_given(spec: dict[str, Any], gpus: Sequence[GpuLocation]) -> list[GpuLocation]:
    """Return the GPUs of which a spec lists a render or card node, or allows one by a rule of the device cgroup.

    Who may use every device, as `--privileged` has it, was given those that a rule names; CDI adds such rules.
    """
    minors = _allowed_minors(spec)
    if allows_every_device(spec):
        minors.difference_update(ANY)
    else:
        minors |= drm_minors(spec)
    everything = not minors.isdisjoint(ANY)
    return [gpu for gpu in gpus if everything or gpu.render_minor in minors or gpu.card_minor in minors]


def may_give_gpus(spec: dict[str, Any]) -> bool:
    """Return whether `gpus_given` has to be asked, which needs the host's GPUs."""
    minors = _allowed_minors(spec)
    if allows_every_device(spec):
        return not minors <= set(ANY)
    return bool(minors or drm_minors(spec))


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
    general = [rule for rule in _rules(spec) if rule.get("major") is None and rule.get("type") in (None, "a")]
    return bool(general) and general[-1].get("allow") is True


def _allowed_minors(spec: dict[str, Any]) -> set[object]:
    """Return the minors of render and card nodes that rules allow to read or write, one of ANY for all of them.

    With such a rule and mknod, which containers may use, a container needs no node in its spec.
    """
    return {rule.get("minor") for rule in _rules(spec) if rule.get("allow") is True and _is_about_drm(rule)}


def _is_about_drm(rule: dict[str, Any]) -> bool:
    major = rule.get("major")
    # "a" without numbers is what `allows_every_device` is about.
    majors: tuple[object, ...] = (DRM_MAJOR, *ANY) if rule.get("type") == "c" else (DRM_MAJOR, -1)
    access = rule.get("access")
    # Everybody may make nodes of everything: "c *:* m".
    return major in majors and rule.get("type") != "b" and (not isinstance(access, str) or access != "m")


def _rules(spec: dict[str, Any]) -> list[dict[str, Any]]:
    linux = spec.get("linux")
    resources = linux.get("resources") if isinstance(linux, dict) else None
    rules = resources.get("devices") if isinstance(resources, dict) else None
    return [rule for rule in (rules if isinstance(rules, list) else []) if isinstance(rule, dict)]


def shared_cgroup(spec: dict[str, Any], container_id: str) -> str:
    """Return the cgroup of a container that has no pid namespace of its own, "" for all others."""
    linux = spec.get("linux")
    if not isinstance(linux, dict):
        return ""
    for namespace in linux.get("namespaces") or []:
        if isinstance(namespace, dict) and namespace.get("type") == "pid" and not namespace.get("path"):
            return ""
    # Without a path runtimes name the cgroup after the container.
    return str(linux.get("cgroupsPath") or container_id)
