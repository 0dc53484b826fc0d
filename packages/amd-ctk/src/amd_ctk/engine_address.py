"""Where an engine's command leads: to an engine of this machine, or to one that may be on another machine."""

from __future__ import annotations

import os
import re

from amd_ctk.engine_words import DOCKER, PODMAN, own_options
from amd_ctk.json_parts import texts_at
from amd_ctk.programs import parse_object
from amdgpu_discovery.plain_files import read_plain_file
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

# Of an address: what this machine calls itself, "" among it, as in tcp://:2375.
THIS_MACHINE = ("", "localhost", "127.0.0.1", "[::1]")
# The context of Docker that is this machine, unless DOCKER_HOST says otherwise.
USUAL_CONTEXT = "default"
# Of a user's own Docker, as dockerd-rootless.sh has it.
OF_USER = re.compile(r"unix://(/var)?/run/user/[0-9]+/docker\.sock")
OF_ROOTS_PODMAN = re.compile(r"unix://(/var)?/run/podman/")
# Of Podman's options, those that name a connection, and those that have it look for one.
CONNECTION = ("--connection", "-c")
REMOTE = ("--remote", "-r")


class EngineAddress(Value):
    """Where an engine listens, without a user's name; "" where that is not said."""

    text: str = ""
    is_other_machine: bool = False


# Podman's connections are in files of three kinds, which its versions read in another order.
UNKNOWN = EngineAddress(is_other_machine=True)


def parse_address(text: str) -> EngineAddress:
    """Return what an address of -H and of DOCKER_HOST says; one without a scheme is of TCP."""
    scheme, separator, rest = text.strip().partition("://")
    if not separator:
        scheme, rest = "tcp", scheme
    if scheme in ("unix", "fd"):
        return EngineAddress(text=f"{scheme}://{rest}")
    # A password may have any of these.
    address = rest.rpartition("@")[2].partition("/")[0]
    if not address:
        return EngineAddress()
    machine = address.rpartition(":")[0] if ":" in address and not address.endswith("]") else address
    return EngineAddress(text=f"{scheme}://{address}", is_other_machine=machine not in THIS_MACHINE)


def is_elsewhere(engine: str, before: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Return whether an engine's own options, variables or files lead to another machine, or to an unknown one."""
    if engine == DOCKER:
        return _is_elsewhere_for_docker(before, environment)
    service = find_service(before, environment) if engine == PODMAN else None
    return service is not None and service.is_other_machine


def find_service(before: Sequence[str], environment: Mapping[str, str]) -> EngineAddress | None:
    """Return where Podman's service listens that starts its containers; None where Podman starts them itself."""
    given = dict(own_options(before))
    if any(name in given for name in CONNECTION):
        return UNKNOWN
    if "--url" in given:
        return parse_address(given["--url"])
    remote = next((given[name] for name in REMOTE if name in given), None)
    if remote is not None and remote.lower() in ("false", "f", "0"):
        return None
    if environment.get("CONTAINER_CONNECTION"):
        return UNKNOWN
    if host := environment.get("CONTAINER_HOST"):
        return parse_address(host)
    return None if remote is None else UNKNOWN


def find_context(before: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return the context that `docker` obeys, "" for the usual one, and where an address counts more."""
    chosen = _last(before, "--context", "-c")
    if not chosen and _find_docker_host(before, environment) is None:
        written = texts_at(_read(before, environment, "config.json")).get("currentContext", "")
        chosen = environment.get("DOCKER_CONTEXT") or written
    return "" if chosen in (None, USUAL_CONTEXT) else chosen


def read_context(name: str, before: Sequence[str], environment: Mapping[str, str]) -> EngineAddress | None:
    """Return where a context of Docker leads, None for one that cannot be read."""
    # Few use contexts.
    from hashlib import sha256

    # A word may have bytes of no character.
    digest = sha256(name.encode(errors="surrogatepass")).hexdigest()
    found = _read(before, environment, f"contexts/meta/{digest}/meta.json")
    host = texts_at(found, "Endpoints", "docker").get("Host", "")
    return parse_address(host) if host else None


def leads_to_rootless(engine: str, before: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Return whether an engine's command leads to one of its user: of Docker and Podman's service by the socket."""
    if engine == PODMAN:
        service = find_service(before, environment)
        return service is None or not OF_ROOTS_PODMAN.match(service.text)
    if engine != DOCKER:
        return False
    address = _find_docker_address(before, environment).text
    own = environment.get("XDG_RUNTIME_DIR")
    return bool(OF_USER.fullmatch(address)) or (bool(own) and address == f"unix://{own}/docker.sock")


def _is_elsewhere_for_docker(before: Sequence[str], environment: Mapping[str, str]) -> bool:
    return _find_docker_address(before, environment).is_other_machine


def _find_docker_address(before: Sequence[str], environment: Mapping[str, str]) -> EngineAddress:
    if context := find_context(before, environment):
        return read_context(context, before, environment) or UNKNOWN
    return parse_address(_find_docker_host(before, environment) or "")


def _find_docker_host(before: Sequence[str], environment: Mapping[str, str]) -> str | None:
    # The option is stronger even where it is empty, which is the usual socket.
    host = _last(before, "--host", "-H")
    return environment.get("DOCKER_HOST") or None if host is None else host


def _last(before: Sequence[str], *names: str) -> str | None:
    return next((value for name, value in reversed([*own_options(before)]) if name in names), None)


def _read(before: Sequence[str], environment: Mapping[str, str], name: str) -> dict[str, Any]:
    """Return a file of the `docker` command, {} for none."""
    home = environment.get("HOME", "")
    directory = _last(before, "--config") or environment.get("DOCKER_CONFIG") or (f"{home}/.docker" if home else "")
    try:
        return parse_object(read_plain_file(os.path.join(directory, name))[0].decode()) if directory else {}
    except (OSError, ValueError):
        return {}
