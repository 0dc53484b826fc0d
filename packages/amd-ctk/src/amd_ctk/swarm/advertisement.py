"""Find out what a node offers and what is promised: from the engine, from its configuration, from the GPU Tracker."""

from __future__ import annotations

import os

from amd_ctk.configuration.apply import find_target
from amd_ctk.configuration.config_file import read_text
from amd_ctk.engines.docker import DOCKER
from amd_ctk.settings_file import read_settings_file
from amd_ctk.swarm.engine import read_engine, read_tasks
from amd_ctk.swarm.errors import SwarmError
from amd_ctk.swarm.node_settings import find_obstacles, read_node_settings
from amd_ctk.swarm.status import build_offer, reservations_of_leases, reservations_of_tasks
from amd_device_spec.settings import CONFIG_FILE, check_settings
from amd_gpu_tracker.tracker import Tracker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amd_ctk.swarm.engine import Engine
    from amd_ctk.swarm.node_settings import NodeSettings
    from amd_ctk.swarm.status import Offer, Reservation
    from amdgpu_discovery.gpu import Gpu
    from amdgpu_discovery.host import Host

DOCKER_HOST = "DOCKER_HOST"


def read_offer(host: Host, gpus: Sequence[Gpu], config_path: str) -> Offer:
    """Return what this node offers, with a sentence about each thing that is not as it should be; ToolkitError."""
    target = find_target(host, DOCKER, config_path)
    settings = read_node_settings(target, read_text(target.file))
    engine = _find_engine(host)
    is_tracking = Tracker(host).is_enabled()
    offer = build_offer(
        gpus,
        engine.resources if engine else settings.resources,
        check_settings(read_settings_file(host), CONFIG_FILE),
        reservations=_read_reservations(host, gpus, engine, is_tracking=is_tracking),
        is_tracking=is_tracking,
    )
    problems = [*offer.problems, *find_obstacles(settings), *_find_lag(engine, settings)]
    return offer.replace(problems=tuple(problems))


def _find_engine(host: Host) -> Engine | None:
    """Return the engine of this host, None where there is none to ask; a simulated host has that of DOCKER_HOST."""
    if not host.is_this_machine and DOCKER_HOST not in os.environ:
        return None
    try:
        return read_engine()
    except SwarmError:
        return None


def _read_reservations(
    host: Host, gpus: Sequence[Gpu], engine: Engine | None, *, is_tracking: bool
) -> dict[int, list[Reservation]]:
    if is_tracking:
        return reservations_of_leases(Tracker(host).status())
    return reservations_of_tasks(read_tasks(), gpus) if engine else {}


def _find_lag(engine: Engine | None, settings: NodeSettings) -> list[str]:
    """Return a sentence where the engine runs with other settings than it would be started with."""
    if engine is None or sorted(map(str, engine.resources)) == sorted(map(str, settings.resources)):
        return []
    return [f"docker offers something else than {settings.resources_from} says, until it is restarted"]
