"""Ask the Docker Compose of this machine what a file comes to, with `extends`, `include`, profiles and overrides."""

from __future__ import annotations

import os
import shutil
from typing import Any

from amd_ctk.explain.container import ExplainError
from amd_ctk.explain.engine_view import find_numbers
from amd_ctk.programs import Answer, ask, parse_object
from amdgpu_discovery.host import Host
from amdgpu_discovery.plain_text import one_line
from amdgpu_discovery.value import Value

SECONDS = 5.0
# The first that is written in Go, and prints JSON.
FIRST = (2,)
# Files of other machines are named, and not fetched.
WITHOUT_REMOTES = ("COMPOSE_EXPERIMENTAL_GIT_REMOTE=false", "COMPOSE_EXPERIMENTAL_OCI_REMOTE=false")
# What Compose merges where it is told no file (DefaultFileNames and DefaultOverrideFileNames of compose-go).
USUAL = ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml")
OVERRIDES = tuple(name.replace(".y", ".override.y") for name in ("compose.yml", *USUAL[:1], *USUAL[2:]))


class Resolved(Value):
    """The services of a Compose file as a version of Compose reads them."""

    services: dict[str, Any]
    version: tuple[int, ...]


def resolve(path: str, host: Host) -> Resolved | None:
    """Return what Compose makes of a file; None where it is not there or does not answer. ExplainError.

    Root does not ask it about another user's file: run as root it would read what that user chose, and run as that
    user it would be a program of theirs on root's terminal.
    """
    if not host.is_this_machine or not os.path.exists(path) or is_of_another(path) or shutil.which("docker") is None:
        return None
    version = find_numbers(_ask("version", "--short").output)
    if version < FIRST:
        return None
    files = [f"--file={file}" for file in (path, *_overrides(path))]
    answer = _ask(*files, "--profile=*", "config", "--format=json")
    if answer.problem:
        return None
    if answer.exit_code:
        raise ExplainError(f"Docker Compose refuses {path}: {_last_line(answer.errors)}")
    services = parse_object(answer.output).get("services")
    return Resolved(services=services if isinstance(services, dict) else {}, version=version)


def is_of_another(path: str) -> bool:
    """Return whether root calls, and a file belongs to another user."""
    return os.geteuid() == 0 and os.stat(path).st_uid != 0


def _ask(*words: str) -> Answer:
    return ask(["env", *WITHOUT_REMOTES, "docker", "compose", *words], seconds=SECONDS)


def _overrides(path: str) -> list[str]:
    directory, name = os.path.split(path)
    if name not in USUAL:
        return []
    beside = [os.path.join(directory, override) for override in OVERRIDES]
    return [file for file in beside if os.path.exists(file)][:1]


def _last_line(errors: str) -> str:
    lines = [line for line in errors.splitlines() if line.strip() and not line.startswith("time=")]
    return one_line(lines[-1]) if lines else "it does not say why"
