"""The names that engines give to containers, read where they keep them; for root, and only as far as that goes."""

from __future__ import annotations

import os

from amd_gpu_tracker.records.state import read_plain_file
from amdgpu_discovery.plain_json import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from amd_gpu_tracker.records.lease import Lease
    from amd_gpu_tracker.show.status import ContainerUse

# Of containerd's CRI plugin, of nerdctl.
NAME_ANNOTATIONS = ("io.kubernetes.cri.container-name", "nerdctl/name")
# What Podman calls its lists of containers; `--rm` ones stand in the second.
PODMAN_LISTS = ("containers.json", "volatile-containers.json")
# Of a list of very many containers.
LARGEST_BYTES = 64 * 1024 * 1024


# Of a name in a sentence; engines allow less.
LONGEST_NAME = 128


def find_container_names(uses: Iterable[ContainerUse]) -> dict[str, str]:
    """Return the names of containers by id; those that are not known are left out."""
    found = {use.container_id: _find_name(use) for use in uses}
    return {container_id: name for container_id, name in found.items() if name}


def find_container_name(use: ContainerUse | Lease) -> str:
    """Return the name of one container as it may stand in a sentence, "" where it is not known."""
    return "".join(character if character.isprintable() else "?" for character in _find_name(use)[:LONGEST_NAME])


def _find_name(use: ContainerUse | Lease) -> str:
    if not use.bundle:
        return ""
    spec = _read(f"{use.bundle}/config.json")
    return _annotated(spec) or _docker_name(spec, use.container_id) or _podman_name(use)


def _annotated(spec: Any) -> str:
    annotations = spec.get("annotations") if isinstance(spec, dict) else None
    known = annotations if isinstance(annotations, dict) else {}
    return next((str(known[name]) for name in NAME_ANNOTATIONS if name in known), "")


def _docker_name(spec: Any, container_id: str) -> str:
    """Return what dockerd wrote beside the hosts file that it mounts into the container."""
    for mount in (spec.get("mounts") if isinstance(spec, dict) else None) or []:
        directory = os.path.dirname(str(mount.get("source", ""))) if isinstance(mount, dict) else ""
        if os.path.basename(directory) == container_id:
            config = _read(f"{directory}/config.v2.json")
            return str(config.get("Name", "")).lstrip("/") if isinstance(config, dict) else ""
    return ""


def _podman_name(use: ContainerUse | Lease) -> str:
    # <graph root>/overlay-containers/<id>/userdata
    containers = os.path.dirname(os.path.dirname(use.bundle))
    for name in PODMAN_LISTS:
        for container in _read(f"{containers}/{name}") or []:
            if isinstance(container, dict) and container.get("id") == use.container_id:
                return str(next(iter(container.get("names") or []), ""))
    return ""


def _read(path: str) -> Any:
    try:
        return loads(read_plain_file(path, largest=LARGEST_BYTES)[0])
    except (OSError, ValueError):
        return None
