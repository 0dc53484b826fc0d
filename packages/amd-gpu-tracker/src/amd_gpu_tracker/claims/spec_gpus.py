"""Which GPUs does an OCI spec open to a container by itself, and do its processes die with its init?

Specs are of the shape that `amdgpu_discovery.oci_spec` lets pass.
"""

from __future__ import annotations

from amdgpu_discovery.drm import DRM_MAJOR
from amdgpu_discovery.oci_spec import ANY_NUMBER, allows_every_device, device_rules, is_general_rule, is_privileged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from amdgpu_discovery.gpu import GpuLocation


def gpus_in_spec(spec: dict[str, Any], gpus: Sequence[GpuLocation]) -> list[GpuLocation]:
    """Return those of `gpus` of which a `spec` lists a render or card node, or allows one by a rule of its cgroup.

    A privileged container is root on the host and could reach every GPU; it was given those that a rule names, as CDI
    adds them.
    """
    minors = _minors_in_spec(spec)
    everything = not minors.isdisjoint(ANY_NUMBER)
    return [gpu for gpu in gpus if everything or gpu.render_minor in minors or gpu.card_minor in minors]


def names_gpus(spec: dict[str, Any]) -> bool:
    """Return whether `gpus_in_spec` has to be asked, which needs the host's GPUs."""
    return bool(_minors_in_spec(spec))


def drm_minors(spec: dict[str, Any]) -> set[int | None]:
    """Return the minor numbers of the render and card nodes, of whatever vendor, that a spec lists."""
    devices = (spec.get("linux") or {}).get("devices") or ()
    return {device.get("minor") for device in devices if device.get("major") == DRM_MAJOR}


def _minors_in_spec(spec: dict[str, Any]) -> set[int | None]:
    """Return the minors of render and card nodes that a spec gives, one of ANY_NUMBER for all of them."""
    rules = device_rules(spec)
    minors = {rule.get("minor") for rule in rules if rule.get("allow") and _is_about_drm(rule)}
    if is_privileged(spec):
        return minors.difference(ANY_NUMBER)
    if allows_every_device(rules):
        minors.add(None)
    return minors | drm_minors(spec)


def _is_about_drm(rule: dict[str, Any]) -> bool:
    """Return whether a rule is about opening render and card nodes, for which a container needs no node in its spec.

    It may make them: every container has the rule "c *:* m".
    """
    is_block = (rule.get("type") or "a").startswith("b")
    # A general rule without a number is what `allows_every_device` is about.
    majors = (DRM_MAJOR,) if is_general_rule(rule) else (DRM_MAJOR, *ANY_NUMBER)
    return not is_block and rule.get("major") in majors and rule.get("access") != "m"


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
