"""Find out what a node offers and what is promised: from the engine, from its configuration, from the GPU Tracker."""

from __future__ import annotations

import os

from amd_ctk.configuration.config_file import ConfigFile, read_text
from amd_ctk.engines.docker import DOCKER
from amd_ctk.settings_file import read_settings_file
from amd_ctk.swarm.advertising import read_resources
from amd_ctk.swarm.engine import read_engine, read_tasks
from amd_ctk.swarm.errors import SwarmError
from amd_ctk.swarm.setup import find_obstacles
from amd_ctk.swarm.status import build_offer, reservations_of_leases, reservations_of_tasks
from amd_device_spec.settings import CONFIG_FILE, check_settings
from amd_gpu_tracker.tracker import Tracker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amd_ctk.swarm.engine import Engine
    from amd_ctk.swarm.resources import Resource
    from amd_ctk.swarm.status import Offer, Reservation
    from amdgpu_discovery.gpu import Gpu
    from amdgpu_discovery.host import Host

DOCKER_HOST = "DOCKER_HOST"


def find_daemon_json(host: Host, config_path: str) -> ConfigFile:
    """Return Docker's configuration file of this host, or the one that was named."""
    if config_path:
        return ConfigFile(path=os.path.abspath(config_path), shown=os.path.abspath(config_path))
    return ConfigFile(path=host.path(DOCKER.config_path), shown=DOCKER.config_path)


def read_offer(host: Host, gpus: Sequence[Gpu], config_path: str) -> Offer:
    """Return what this node offers, with a sentence about each thing that is not as it should be; ToolkitError."""
    file = find_daemon_json(host, config_path)
    document = DOCKER.read(read_text(file) or DOCKER.new_text)
    configured = read_resources(document)
    engine = _find_engine(host)
    is_tracking = Tracker(host).is_enabled()
    offer = build_offer(
        gpus,
        engine.resources if engine else configured,
        check_settings(read_settings_file(host), CONFIG_FILE),
        reservations=_read_reservations(host, gpus, engine, is_tracking=is_tracking),
        is_tracking=is_tracking,
    )
    problems = [*offer.problems, *find_obstacles(document), *_find_lag(engine, configured, file)]
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


def _find_lag(engine: Engine | None, configured: Sequence[Resource], file: ConfigFile) -> list[str]:
    """Return a sentence where the engine runs with another configuration than its file holds."""
    if engine is None or sorted(map(str, engine.resources)) == sorted(map(str, configured)):
        return []
    return [f"docker offers something else than {file.shown} says, until it is restarted"]
