"""The spec of a container that is there already: in a bundle, or running."""

from __future__ import annotations

import os

from amd_ctk.explain.errors import ExplainError
from amd_ctk.explain.running import ask_engines, find_running
from amdgpu_discovery.oci_spec import read_spec
from amdgpu_discovery.plain_files import read_plain_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from amdgpu_discovery.host import Host

LARGEST_CONFIG = 16 * 1024 * 1024


def read_bundle(directory: str) -> dict[str, Any]:
    """Return the spec of a bundle; FileError."""
    path = os.path.join(directory, "config.json")
    return read_spec(
        path, name=f"the bundle's {path}", read=lambda path: read_plain_file(path, largest=LARGEST_CONFIG)[0]
    )


def read_running(host: Host, name: str) -> tuple[str, dict[str, Any]]:
    """Return the id and the spec of a running container by its id or its engine's name for it; ExplainError."""
    asked = ask_engines(name)
    found = find_running(host, name, asked.told)
    if found and found.bundle:
        return found.container_id, read_bundle(found.bundle)
    root = "" if os.geteuid() == 0 else "; run it with sudo"
    late = f"; {asked.late}" if asked.late else ""
    raise ExplainError(
        f"no container {name} is running, as far as can be seen here{late}{root}", hint="name it by its id"
    )
