"""Running containers whose device numbers are no longer those of the host."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from amd_ctk.doctor.facts.gpus import GpuFacts
from amd_ctk.explain.running import read_bundle
from amd_gpu_tracker.life.processes import Processes
from amd_gpu_tracker.life.running import find_running_containers
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value


class StaleContainer(Value):
    """A container with a device of another number than the host's node of that path."""

    container_id: str
    path: str
    inside: str
    outside: str
    bundle: str = ""


def read_stale_containers(host: Host, gpus: GpuFacts) -> tuple[StaleContainer, ...] | None:
    """Return the containers that were made before numbers changed; None for those who may not look."""
    if os.geteuid() != 0 and host.is_this_machine:
        return None
    numbers = {node.path: f"{node.major}:{node.minor}" for node in gpus.nodes}
    found = []
    for container in find_running_containers(host, Processes()):
        if container.bundle:
            found += list(_compare(container.container_id, container.bundle, numbers))
    return tuple(found)


def _compare(container_id: str, bundle: str, numbers: dict[str, str]) -> Iterator[StaleContainer]:
    try:
        devices = list(_devices(read_bundle(bundle)))
    except ToolkitError:
        return
    for device in devices:
        path, inside = str(device.get("path")), f"{device.get('major')}:{device.get('minor')}"
        if path in numbers and numbers[path] != inside:
            yield StaleContainer(
                container_id=container_id, path=path, inside=inside, outside=numbers[path], bundle=bundle
            )


def _devices(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    linux = spec.get("linux")
    devices = linux.get("devices") if isinstance(linux, dict) else None
    yield from (device for device in (devices if isinstance(devices, list) else []) if isinstance(device, dict))
