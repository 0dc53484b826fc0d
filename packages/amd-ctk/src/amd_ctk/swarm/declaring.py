"""Write to the settings what this node advertises: which resource kinds name GPUs, in which form, which count VRAM.

An image can set any variable that Swarm sets, so the runtime reads no other kinds and no other form of names.
"""

from __future__ import annotations

from amd_ctk.settings_file import read_settings_file, set_setting, unset_setting
from amd_device_spec.settings import CONFIG_FILE, Settings, check_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from amd_ctk.swarm.resources import Plan, Resource
    from amdgpu_discovery.host import Host

GPU_KINDS = "swarm-resources"
GPU_NAMES = "swarm-resource-names"
VRAM_KINDS = "swarm-vram-resources"
HEADROOM = "swarm-vram-headroom"


def declare(host: Host, resources: Collection[Resource], plan: Plan) -> bool:
    """Write the settings for these resources; return whether they changed."""
    settings = _read(host)
    naming = tuple(dict.fromkeys(resource.kind for resource in resources if resource.kind != plan.vram_kind))
    changed = []
    if naming != settings.swarm_resources:
        changed.append(set_setting(host, GPU_KINDS, list(naming)))
    if plan.by != settings.swarm_resource_names:
        changed.append(set_setting(host, GPU_NAMES, plan.by))
    if plan.vram_kind:
        changed.append(set_setting(host, VRAM_KINDS, [plan.vram_kind]))
    elif settings.swarm_vram_resources:
        changed.append(unset_setting(host, VRAM_KINDS))
    changed.append(_declare_headroom(host, settings, plan.headroom_mib))
    return any(changed)


def _declare_headroom(host: Host, settings: Settings, mib: int) -> bool:
    if mib == settings.swarm_vram_headroom:
        return False
    return set_setting(host, HEADROOM, mib) if mib else unset_setting(host, HEADROOM)


def undeclare(host: Host, kinds: Collection[str]) -> bool:
    """Remove these kinds from the settings, which get their defaults back; return whether they changed."""
    settings, default = _read(host), Settings()
    kept = [kind for kind in settings.swarm_resources if kind not in kinds]
    changed = []
    is_changed = len(kept) < len(settings.swarm_resources) or (kinds and not kept)
    if settings.swarm_resources != default.swarm_resources and is_changed:
        changed.append(set_setting(host, GPU_KINDS, kept) if kept else unset_setting(host, GPU_KINDS))
    if kinds and settings.swarm_resource_names != default.swarm_resource_names:
        changed.append(unset_setting(host, GPU_NAMES))
    if set(settings.swarm_vram_resources) & set(kinds):
        changed.append(unset_setting(host, VRAM_KINDS))
        changed.append(_declare_headroom(host, settings, 0))
    return any(changed)


def _read(host: Host) -> Settings:
    return check_settings(read_settings_file(host), CONFIG_FILE)
