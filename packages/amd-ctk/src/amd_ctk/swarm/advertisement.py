"""What a node advertises and what is reserved, as Docker, its configuration and the GPUs say; and what to advertise."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from amd_ctk.configuration.apply import find_target
from amd_ctk.configuration.edit import read_text
from amd_ctk.configuration.settings_file import read_settings_file, set_setting, unset_setting
from amd_ctk.engines.docker import DOCKER
from amd_ctk.swarm.docker import DockerInfo, TaskName, read_docker_info, read_task_names, read_tasks
from amd_ctk.swarm.node_settings import NodeSettings, find_obstacles, read_node_settings
from amd_ctk.swarm.resources import Resource, ResourcePlan, SwarmError
from amd_ctk.swarm.status import (
    Advertisement,
    Reservations,
    build_advertisement,
    name_tasks,
    reservations_of_leases,
    reservations_of_tasks,
)
from amd_device_spec.settings import CONFIG_FILE, Settings, check_settings
from amd_gpu_tracker import Tracker
from amdgpu_discovery.gpu import Gpu
from amdgpu_discovery.host import Host

DOCKER_HOST = "DOCKER_HOST"
GPU_KINDS = "swarm-resources"
GPU_NAMES = "swarm-resource-names"
VRAM_KINDS = "swarm-vram-resources"
HEADROOM = "swarm-vram-headroom"


def read_advertisement(host: Host, gpus: Sequence[Gpu], config_path: str) -> Advertisement:
    """Return what this node advertises, with a sentence for each problem; ToolkitError."""
    target = find_target(host, DOCKER, config_path)
    settings = read_node_settings(target, read_text(target.file))
    docker_info = _find_docker_info(host)
    is_tracking = Tracker(host).is_enabled()
    advertisement = build_advertisement(
        gpus,
        docker_info.resources if docker_info else settings.resources,
        check_settings(read_settings_file(host), CONFIG_FILE),
        reservations=_read_reservations(host, gpus, docker_info, is_tracking=is_tracking),
        is_tracking=is_tracking,
    )
    problems = [
        *advertisement.problems,
        *_find_drained(host, gpus, advertisement),
        *find_obstacles(settings),
        *_find_lag(docker_info, settings),
    ]
    return advertisement.replace(problems=tuple(problems))


def _find_drained(host: Host, gpus: Sequence[Gpu], advertisement: Advertisement) -> list[str]:
    """Return a sentence for each GPU that is offered to tasks in vain."""
    tracker = Tracker(host)
    sick, left = tracker.gpus.sick(gpus), tracker.gpus.without_drained(gpus)
    words = {gpu.number: "sick" if gpu.number in sick else "drained" for gpu in gpus if gpu not in left}
    return [
        f"GPU {gpu.number} is {words[gpu.number]} and advertised, so tasks that get it are refused"
        " (run 'sudo amd-ctk swarm setup' again)"
        for gpu in advertisement.gpus
        if gpu.number in words and gpu.resources
    ]


def _find_docker_info(host: Host) -> DockerInfo | None:
    """Return what Docker says about itself, None without Docker; a simulated host asks the one of DOCKER_HOST."""
    if not host.is_this_machine and DOCKER_HOST not in os.environ:
        return None
    try:
        return read_docker_info()
    except SwarmError:
        return None


def _read_reservations(
    host: Host, gpus: Sequence[Gpu], docker_info: DockerInfo | None, *, is_tracking: bool
) -> Reservations:
    if is_tracking:
        reservations = reservations_of_leases(Tracker(host).status())
    else:
        reservations = reservations_of_tasks(read_tasks(), gpus) if docker_info else {}
    return name_tasks(reservations, _find_task_names()) if docker_info and any(reservations.values()) else reservations


def _find_task_names() -> dict[str, TaskName]:
    """Return the names of tasks, as far as Docker says them."""
    try:
        return read_task_names()
    except SwarmError:
        return {}


def _find_lag(docker_info: DockerInfo | None, settings: NodeSettings) -> list[str]:
    """Return a sentence where Docker still runs with older settings than its configuration has."""
    if docker_info is None or sorted(map(str, docker_info.resources)) == sorted(map(str, settings.resources)):
        return []
    return [f"docker advertises the GPUs of {settings.resources_from} only after a restart"]


def declare(host: Host, resources: Collection[Resource], plan: ResourcePlan) -> bool:
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
