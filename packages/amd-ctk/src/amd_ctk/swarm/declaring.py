"""Tell the runtime, by the settings, which kinds of resources name GPUs and which count VRAM."""

from __future__ import annotations

from amd_ctk.settings_file import read_settings_file, set_setting, unset_setting
from amd_device_spec.settings import CONFIG_FILE, Settings
from amd_device_spec.settings_rules import check_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from amd_ctk.swarm.resources import Plan, Resource
    from amdgpu_discovery.host import Host

GPU_KINDS = "swarm-resources"
VRAM_KINDS = "swarm-vram-resources"


def declare(host: Host, resources: Collection[Resource], plan: Plan) -> bool:
    """Have the runtime read these resources as they are meant; return whether that is new to it."""
    settings = _read(host)
    naming = dict.fromkeys(resource.kind for resource in resources if resource.kind != plan.vram_kind)
    unknown = [kind for kind in naming if kind not in settings.swarm_resources]
    changed = [set_setting(host, GPU_KINDS, [*settings.swarm_resources, *unknown])] if unknown else []
    if plan.vram_kind:
        changed.append(set_setting(host, VRAM_KINDS, [plan.vram_kind]))
    elif settings.swarm_vram_resources:
        changed.append(unset_setting(host, VRAM_KINDS))
    return any(changed)


def forget(host: Host, kinds: Collection[str]) -> bool:
    """Declare these kinds no longer, short of those that are declared by default; return whether they were."""
    settings = _read(host)
    default = Settings().swarm_resources
    kept = [kind for kind in settings.swarm_resources if kind in default or kind not in kinds]
    changed = []
    if kept != list(settings.swarm_resources):
        changed.append(unset_setting(host, GPU_KINDS) if kept == list(default) else set_setting(host, GPU_KINDS, kept))
    if set(settings.swarm_vram_resources) & set(kinds):
        changed.append(unset_setting(host, VRAM_KINDS))
    return any(changed)


def _read(host: Host) -> Settings:
    return check_settings(read_settings_file(host), CONFIG_FILE)
