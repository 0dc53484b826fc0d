"""Which GPUs an OCI spec opens to a container without being asked by name, and do its processes die with its init?

Specs are of the shape that `amdgpu_discovery.oci_spec` lets pass.
"""

from __future__ import annotations

from amdgpu_discovery.drm import DRM_MAJOR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from amdgpu_discovery.gpu import GpuLocation


# What Docker writes for the * of `--device-cgroup-rule`; Podman leaves the number out.
ANY = (None, -1)


def gpus_given(spec: dict[str, Any], gpus: Sequence[GpuLocation]) -> list[GpuLocation]:
    """Return the GPUs of which a spec lists a render or card node, or allows one by a rule of the device cgroup.

    A privileged container is root on the host and could reach every GPU; it was given those that a rule names, as CDI
    adds them.
    """
    minors = _minors_given(spec)
    everything = not minors.isdisjoint(ANY)
    return [gpu for gpu in gpus if everything or gpu.render_minor in minors or gpu.card_minor in minors]


def may_give_gpus(spec: dict[str, Any]) -> bool:
    """Return whether `gpus_given` has to be asked, which needs the host's GPUs."""
    return bool(_minors_given(spec))


def is_privileged(spec: dict[str, Any]) -> bool:
    """Return whether a container may use every device and holds CAP_SYS_ADMIN, as `--privileged` has both.

    One alone says less: who adds the capability and a GPU's node has asked for that GPU, and who allows every device
    (`--device-cgroup-rule='a *:* rwm'`) has asked for all GPUs.
    """
    capabilities = (spec.get("process") or {}).get("capabilities") or {}
    return "CAP_SYS_ADMIN" in (capabilities.get("bounding") or ()) and _allows_every_device(_rules(spec))


def drm_minors(spec: dict[str, Any]) -> set[int | None]:
    """Return the minor numbers of the render and card nodes, of whatever vendor, that a spec lists."""
    devices = (spec.get("linux") or {}).get("devices") or ()
    return {device.get("minor") for device in devices if device.get("major") == DRM_MAJOR}


def _minors_given(spec: dict[str, Any]) -> set[int | None]:
    """Return the minors of render and card nodes that a spec gives, one of ANY for all of them."""
    rules = _rules(spec)
    minors = {rule.get("minor") for rule in rules if rule.get("allow") and _is_about_drm(rule)}
    if is_privileged(spec):
        return minors.difference(ANY)
    if _allows_every_device(rules):
        minors.add(None)
    return minors | drm_minors(spec)


def _allows_every_device(rules: Sequence[dict[str, Any]]) -> bool:
    allowed = False
    for rule in rules:
        if _is_general(rule):
            # runc and cgroups v1 pass over the rest of such a rule; crun with cgroups v2 takes a denial at its word.
            allowed = bool(rule.get("allow")) or (allowed and not _denies_everything(rule))
    return allowed


def _is_general(rule: dict[str, Any]) -> bool:
    """Return whether a rule is of type "a", which is also that of rules without one; crun looks at the first letter."""
    return (rule.get("type") or "a").startswith("a")


def _denies_everything(rule: dict[str, Any]) -> bool:
    return rule.get("major") in ANY and rule.get("minor") in ANY and set("rwm") <= set(rule.get("access") or "")


def _is_about_drm(rule: dict[str, Any]) -> bool:
    """Return whether a rule is about opening render and card nodes, for which a container needs no node in its spec.

    It may make them: everybody has the rule "c *:* m".
    """
    is_block = (rule.get("type") or "a").startswith("b")
    # A general rule without a number is what `_allows_every_device` is about.
    majors = (DRM_MAJOR,) if _is_general(rule) else (DRM_MAJOR, *ANY)
    return not is_block and rule.get("major") in majors and rule.get("access") != "m"


def _rules(spec: dict[str, Any]) -> list[dict[str, Any]]:
    resources = (spec.get("linux") or {}).get("resources") or {}
    return resources.get("devices") or []


def shared_cgroup(spec: dict[str, Any], container_id: str) -> str:
    """Return the cgroup of a container that has no pid namespace of its own, "" for all others."""
    linux = spec.get("linux")
    if linux is None:
        return ""
    for namespace in linux.get("namespaces") or ():
        if namespace.get("type") == "pid" and not namespace.get("path"):
            return ""
    # Without a path runtimes name the cgroup after the container.
    return str(linux.get("cgroupsPath") or container_id)
