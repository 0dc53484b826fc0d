"""What of a Compose file lies on other machines, and what a version of Compose does not read."""

from __future__ import annotations

import re
from typing import Any

from amd_ctk.engines.docker import FIRST_COMPOSE_WITH_GPUS
from amd_ctk.explain.host_nodes import is_cdi_name
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.plain_text import one_line
from amdgpu_discovery.value import Value

INSTEAD = "write it below 'deploy:', or install Compose 2.30 or later"
REMOTE = re.compile(r"(https?|git|ssh|oci)://|git@|github\.com/|\S*\.git(#|$)")


class AsRead(Value):
    """A service as a version of Compose reads it, why Docker then does not start it, and what is left out."""

    service: dict[str, Any]
    refusals: tuple[ToolkitError, ...] = ()
    problems: tuple[str, ...] = ()


def find_remote(tree: dict[str, Any]) -> str:
    """Return the first part of a Compose file that is on another machine, "" for none."""
    services = tree.get("services")
    extended = map(_extended, services.values()) if isinstance(services, dict) else ()
    included = (
        as_list(part.get("path")) if isinstance(part, dict) else [part] for part in as_list(tree.get("include"))
    )
    words = map(str, (*extended, *(word for words in included for word in words)))
    return next(filter(REMOTE.match, words), "")


def as_version_reads(service: dict[str, Any], version: tuple[int, ...]) -> AsRead:
    """Return a service without what this version of Compose leaves out, or hands to Docker so that it refuses."""
    if version >= FIRST_COMPOSE_WITH_GPUS:
        return AsRead(service=service)
    of_compose = f"Compose {'.'.join(map(str, version))}"
    devices = as_list(service.get("devices"))
    names = [source for source in map(_source_of, devices) if is_cdi_name(source)]
    left_out = f"{of_compose} leaves 'gpus:' out: {INSTEAD}"
    return AsRead(
        service={**service, "devices": [one for one in devices if _source_of(one) not in names], "gpus": None},
        refusals=tuple(
            ToolkitError(f"{of_compose} takes {one_line(name)} for a path, which Docker refuses", hint=INSTEAD)
            for name in names
        ),
        problems=(left_out,) if service.get("gpus") else (),
    )


def as_list(value: Any) -> list[Any]:
    """Return the entries of what may stand alone, or not at all."""
    return list(value) if isinstance(value, (list, tuple)) else [] if value is None else [value]


def _extended(service: object) -> str:
    extends = service.get("extends") if isinstance(service, dict) else None
    return str(extends.get("file", "")) if isinstance(extends, dict) else ""


def _source_of(device: object) -> str:
    return str(device.get("source", "")) if isinstance(device, dict) else str(device).partition(":")[0]
