"""The Docker Compose of this machine: what it makes of a file, with `extends`, `include`, profiles and overrides.

Also what a version of Compose does not read, and which parts of a file are on other machines. Nothing fetches those.
"""

from __future__ import annotations

import os
import re
import shutil
from typing import Any

from amd_ctk.engines.docker import FIRST_COMPOSE_WITH_GPUS
from amd_ctk.explain.container import ExplainError
from amd_ctk.explain.host_nodes import is_cdi_name
from amdgpu_discovery.command_line.json_parts import object_at
from amdgpu_discovery.command_line.programs import Answer, ask, parse_object, parse_version
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host
from amdgpu_discovery.untrusted.plain_text import one_line
from amdgpu_discovery.value import Value

COMPOSE_SECONDS = 5.0
# The first version that is written in Go and prints JSON.
FIRST = (2,)
# A Compose file may name files on other machines. Compose must not fetch them.
WITHOUT_REMOTES = ("COMPOSE_EXPERIMENTAL_GIT_REMOTE=false", "COMPOSE_EXPERIMENTAL_OCI_REMOTE=false")
# What Compose merges if it is given no file (DefaultFileNames and DefaultOverrideFileNames of compose-go).
DEFAULT_FILES = ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml")
OVERRIDES = tuple(name.replace(".y", ".override.y") for name in ("compose.yml", *DEFAULT_FILES[:1], *DEFAULT_FILES[2:]))
GPUS_HINT = "write it below 'deploy:', or install Compose 2.30 or later"
REMOTE = re.compile(r"(https?|git|ssh|oci)://|git@|github\.com/|\S*\.git(#|$)")


class Resolved(Value):
    """The services of a Compose file as a version of Compose reads them; none if it is `late`, which says so."""

    services: dict[str, Any]
    version: tuple[int, ...]
    late: str = ""


class AsRead(Value):
    """A service as a version of Compose reads it, why Docker then does not start it, and what is left out."""

    service: dict[str, Any]
    refusals: tuple[ToolkitError, ...] = ()
    problems: tuple[str, ...] = ()


def resolve(path: str, host: Host) -> Resolved | None:
    """Return what Compose 2 makes of a file; None if it is not asked or does not answer; ExplainError if it refuses.

    Root does not ask Compose about another user's file. Run as root, it would read whatever that user chose; run as
    that user, it would be the user's program on root's terminal.
    """
    if not host.is_this_machine or not os.path.exists(path) or is_of_another(path) or shutil.which("docker") is None:
        return None
    asked = _ask("version", "--short")
    if asked.is_late:
        return Resolved(services={}, version=(), late=asked.problem)
    version = parse_version(asked.output)
    if version < FIRST:
        return None
    files = [f"--file={file}" for file in (path, *_overrides(path))]
    answer = _ask(*files, "--profile=*", "config", "--format=json")
    if answer.is_late:
        return Resolved(services={}, version=(), late=answer.problem)
    if answer.problem:
        return None
    if answer.exit_code:
        lines = [line for line in answer.errors.splitlines() if line.strip() and not line.startswith("time=")]
        why = one_line(lines[-1]) if lines else "it does not say why"
        raise ExplainError(f"Docker Compose refuses {path}: {why}")
    return Resolved(services=object_at(parse_object(answer.output), "services"), version=version)


def as_version_reads(service: dict[str, Any], version: tuple[int, ...]) -> AsRead:
    """Return a service without what this version of Compose leaves out, or has Docker refuse."""
    if version >= FIRST_COMPOSE_WITH_GPUS:
        return AsRead(service=service)
    of_compose = f"Compose {'.'.join(map(str, version))}"
    devices = as_list(service.get("devices"))
    names = [source for source in map(_source_of, devices) if is_cdi_name(source)]
    left_out = f"{of_compose} leaves 'gpus:' out: {GPUS_HINT}"
    return AsRead(
        service={**service, "devices": [one for one in devices if _source_of(one) not in names], "gpus": []},
        refusals=tuple(
            ToolkitError(f"{of_compose} takes {one_line(name)} for a path, which Docker refuses", hint=GPUS_HINT)
            for name in names
        ),
        problems=(left_out,) if service.get("gpus") else (),
    )


def is_of_another(path: str) -> bool:
    """Return whether root is the caller and a file belongs to another user."""
    return os.geteuid() == 0 and os.stat(path).st_uid != 0


def find_remote(tree: dict[str, Any]) -> str:
    """Return the first part of a Compose file that is on another machine, "" if none is."""
    services = tree.get("services")
    extended = map(_extended, services.values()) if isinstance(services, dict) else ()
    included = (
        as_list(part.get("path")) if isinstance(part, dict) else [part] for part in as_list(tree.get("include"))
    )
    words = map(str, (*extended, *(word for words in included for word in words)))
    return next(filter(REMOTE.match, words), "")


def as_list(value: Any) -> list[Any]:
    """Return the entries of a list, a single value as one entry, and None as no entries."""
    if isinstance(value, (list, tuple)):
        return list(value)
    return [] if value is None else [value]


def _ask(*args: str) -> Answer:
    return ask(["env", *WITHOUT_REMOTES, "docker", "compose", *args], seconds=COMPOSE_SECONDS)


def _overrides(path: str) -> list[str]:
    directory, name = os.path.split(path)
    if name not in DEFAULT_FILES:
        return []
    beside = [os.path.join(directory, override) for override in OVERRIDES]
    return [file for file in beside if os.path.exists(file)][:1]


def _extended(service: object) -> str:
    extends = service.get("extends") if isinstance(service, dict) else None
    return str(extends.get("file", "")) if isinstance(extends, dict) else ""


def _source_of(device: object) -> str:
    return str(device.get("source", "")) if isinstance(device, dict) else str(device).partition(":")[0]
