"""Running containers with GPUs: those with device numbers of an earlier driver, and those that were never started."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from typing import Any

from amd_ctk.doctor.facts import read_or
from amd_ctk.doctor.facts.gpus import GpuFacts
from amd_ctk.explain.running import read_bundle
from amd_gpu_tracker import Processes, RunningContainer, find_running_containers
from amdgpu_discovery.command_line.json_parts import objects_at
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

# An engine needs only moments between `create` and `start`.
LONG_SECONDS = 60.0


class StaleContainer(Value):
    """A container in which a device has another number than the host's node at the same path."""

    container_id: str
    path: str
    inside: str
    outside: str
    bundle: str = ""


class UnstartedContainer(Value):
    """A container that its runtime has created but nothing has started: its id, and one of its GPU nodes.

    `root` is the runtime's `--root`, "" for the default.
    """

    container_id: str
    root: str
    path: str


def read_containers(host: Host) -> list[RunningContainer] | None:
    """Return root's containers, running or created; None if this process may not look."""
    if os.geteuid() != 0 and host.is_this_machine:
        return None
    return [container for container in find_running_containers(host, Processes()) if container.bundle]


def find_stale(containers: Iterable[RunningContainer], gpus: GpuFacts) -> tuple[StaleContainer, ...]:
    """Return the containers that were created before device numbers changed."""
    numbers = {node.path: f"{node.major}:{node.minor}" for node in gpus.nodes}
    return tuple(stale for one in containers for stale in _compare(one.container_id, one.bundle, numbers))


def find_unstarted(
    containers: Iterable[RunningContainer], host: Host, *, seconds: float = LONG_SECONDS
) -> tuple[UnstartedContainer, ...]:
    """Return the containers with GPUs that were created at least `seconds` ago and have not started."""
    latest = time.time() - seconds
    created = (each for each in containers if (at := each.created_at(host)) is not None and at <= latest)
    found = ((each, next(_gpu_nodes(each.bundle), "")) for each in created)
    return tuple(
        UnstartedContainer(container_id=each.container_id, root=each.root, path=path) for each, path in found if path
    )


def _gpu_nodes(bundle: str) -> Iterator[str]:
    paths = (str(device.get("path")) for device in _devices(bundle))
    yield from (path for path in paths if path.startswith("/dev/dri/renderD"))


def _compare(container_id: str, bundle: str, numbers: dict[str, str]) -> Iterator[StaleContainer]:
    for device in _devices(bundle):
        path = str(device.get("path"))
        inside = f"{device.get('major')}:{device.get('minor')}"
        if (outside := numbers.get(path, inside)) != inside:
            yield StaleContainer(container_id=container_id, path=path, inside=inside, outside=outside, bundle=bundle)


def _devices(bundle: str) -> list[dict[str, Any]]:
    """Return the devices of a container's spec, [] if it cannot be read."""
    spec: dict[str, Any] = read_or(lambda: read_bundle(bundle), {})
    return objects_at(spec, "linux", "devices")
