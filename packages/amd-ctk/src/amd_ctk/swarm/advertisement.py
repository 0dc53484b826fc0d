"""Find what a node advertises and what is reserved, and write the settings for advertised resources."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import Any

from amd_ctk.configuration.apply import find_target
from amd_ctk.configuration.edit import read_text
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
from amd_device_spec.settings import Settings
from amd_device_spec.settings_file import read_written_settings, set_settings
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
        read_written_settings(host),
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
    """Return a sentence for each drained, sick or dirty GPU that is advertised, because it refuses every task."""
    words = Tracker(host).gpus.withheld_as(gpus)
    return [
        f"GPU {gpu.number} is {words[gpu.number]} and advertised, so tasks that get it are refused"
        " (run 'sudo amd-ctk swarm setup' again)"
        for gpu in advertisement.gpus
        if gpu.number in words and gpu.resources
    ]


def _find_docker_info(host: Host) -> DockerInfo | None:
    """Return what Docker reports, None if it does not answer. A simulated host needs DOCKER_HOST for this."""
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
    """Return the names of tasks, as far as Docker reports them."""
    try:
        return read_task_names()
    except SwarmError:
        return {}


def _find_lag(docker_info: DockerInfo | None, settings: NodeSettings) -> list[str]:
    """Return a sentence if Docker still runs with settings that differ from its configuration."""
    if docker_info is None or sorted(map(str, docker_info.resources)) == sorted(map(str, settings.resources)):
        return []
    return [f"docker advertises the GPUs of {settings.resources_from} only after a restart"]


def declare(host: Host, resources: Collection[Resource], plan: ResourcePlan) -> bool:
    """Write the settings for these resources; return whether they changed."""
    settings = read_written_settings(host)
    naming = tuple(dict.fromkeys(resource.kind for resource in resources if resource.kind != plan.vram_kind))
    changes: dict[str, Any] = {}
    if naming != settings.swarm_resources:
        changes[GPU_KINDS] = list(naming)
    if plan.by != settings.swarm_resource_names:
        changes[GPU_NAMES] = plan.by
    if plan.vram_kind or settings.swarm_vram_resources:
        changes[VRAM_KINDS] = [plan.vram_kind] if plan.vram_kind else None
    if plan.headroom_mib != settings.swarm_vram_headroom:
        changes[HEADROOM] = plan.headroom_mib or None
    return set_settings(host, changes)


def undeclare(host: Host, kinds: Collection[str]) -> bool:
    """Remove these kinds from the settings, back to the defaults; return whether the settings changed."""
    settings = read_written_settings(host)
    default = Settings()
    kept = [kind for kind in settings.swarm_resources if kind not in kinds]
    changes: dict[str, Any] = {}
    is_changed = len(kept) < len(settings.swarm_resources) or (kinds and not kept)
    if settings.swarm_resources != default.swarm_resources and is_changed:
        changes[GPU_KINDS] = kept or None
    if kinds and settings.swarm_resource_names != default.swarm_resource_names:
        changes[GPU_NAMES] = None
    if set(settings.swarm_vram_resources) & set(kinds):
        changes |= {VRAM_KINDS: None, HEADROOM: None}
    return set_settings(host, changes)
