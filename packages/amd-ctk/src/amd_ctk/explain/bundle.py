"""The spec of a container that is there already: in a bundle, or running."""

from __future__ import annotations

import os

from amd_ctk.explain.errors import ExplainError
from amd_ctk.programs import ask
from amd_gpu_tracker.life.processes import Processes
from amd_gpu_tracker.life.running import find_running_containers
from amdgpu_discovery.errors import FileError, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from amdgpu_discovery.host import Host

ENGINES = ("docker", "podman")
LARGEST_CONFIG = 16 * 1024 * 1024
SHORTEST_ID = 3


def read_bundle(directory: str) -> dict[str, Any]:
    """Return the spec of a bundle; FileError."""
    import json

    path = os.path.join(directory, "config.json")
    try:
        with open(path, "rb") as file:
            spec = json.loads(file.read(LARGEST_CONFIG))
    except OSError as error:
        raise FileError(f"the bundle's {path} cannot be read: {reason(error)}") from error
    except (ValueError, RecursionError) as error:
        raise FileError(f"the bundle's {path} is not JSON: {error}") from error
    if not isinstance(spec, dict):
        raise FileError(f"the bundle's {path} is not a JSON object")
    return spec


def read_running(host: Host, name: str) -> tuple[str, dict[str, Any]]:
    """Return the id and the spec of a running container by its id or its engine's name for it; ExplainError."""
    running = find_running_containers(host, Processes())
    ids = [name, *(_ask_id(engine, name) for engine in ENGINES)]
    for known in filter(None, ids):
        found = [one for one in running if one.container_id == known or _abbreviates(known, one.container_id)]
        if len(found) == 1 and found[0].bundle:
            return found[0].container_id, read_bundle(found[0].bundle)
    root = "" if os.geteuid() == 0 else "; run it with sudo"
    raise ExplainError(f"no container {name} is running, as far as can be seen here{root}", hint="name it by its id")


def _ask_id(engine: str, name: str) -> str:
    """Return the id of a container by its name, "" where an engine does not know it."""
    if name.startswith("-"):
        return ""
    answer = ask([engine, "inspect", "--type", "container", "--format", "{{.Id}}", name])
    return answer.output.strip() if answer.succeeded else ""


def _abbreviates(short: str, container_id: str) -> bool:
    return len(short) >= SHORTEST_ID and container_id.startswith(short)
