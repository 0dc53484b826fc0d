"""Find where an engine's command leads: to an engine on this machine, or possibly to another machine."""

from __future__ import annotations

import os
import re

from amd_ctk.engines.engine_words import DOCKER, PODMAN, own_options
from amdgpu_discovery.command_line.json_parts import texts_at
from amdgpu_discovery.command_line.programs import parse_object
from amdgpu_discovery.untrusted.plain_files import read_plain_file
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

# Names of this machine in an address. Addresses such as tcp://:2375 have an empty one.
THIS_MACHINE = ("", "localhost", "127.0.0.1", "[::1]")
# Docker's context for this machine; DOCKER_HOST overrides it.
USUAL_CONTEXT = "default"
# The sockets of rootless Docker, as dockerd-rootless.sh sets it, and of rootless Podman.
ROOTLESS_SOCKET = re.compile(r"unix://(/var)?/run/user/[0-9]+/(docker|podman/podman)\.sock")
PODMAN_ROOT_SOCKET = re.compile(r"unix://(/var)?/run/podman/")
# Where Podman listens for Docker's API, of root and of a user.
PODMAN_SOCKET = re.compile(r"unix://(/.*)?/podman/podman\.sock")
# It drops requests for runtimes and GPUs.
PODMAN_API_FIX = "start it with 'podman --runtime amd system service', or request driver=cdi,device=amd.com/gpu=0"
ADDRESS = "DOCKER_HOST"
CONTEXT = "DOCKER_CONTEXT"
# Of an address in a message.
LONGEST_SHOWN_ADDRESS = 200
# Podman's options that name a connection, and those that make Podman look for one.
CONNECTION = ("--connection", "-c")
REMOTE = ("--remote", "-r")


class EngineAddress(Value):
    """The address of an engine, without a user's name. It is "" if nothing names an address."""

    text: str = ""
    is_other_machine: bool = False


# A connection of Podman is not resolved: three kinds of files hold connections, and versions read them in different
# orders.
UNKNOWN = EngineAddress(is_other_machine=True)


def parse_address(text: str) -> EngineAddress:
    """Parse an address as -H and DOCKER_HOST have it. An address without a scheme is TCP."""
    scheme, separator, rest = text.strip().partition("://")
    if not separator:
        scheme, rest = "tcp", scheme
    if scheme in ("unix", "fd"):
        return EngineAddress(text=f"{scheme}://{rest}")
    # A password may contain "/", "@" and ":".
    address = rest.rpartition("@")[2].partition("/")[0]
    if not address:
        return EngineAddress()
    machine = address.rpartition(":")[0] if ":" in address and not address.endswith("]") else address
    return EngineAddress(text=f"{scheme}://{address}", is_other_machine=machine not in THIS_MACHINE)


def is_elsewhere(engine: str, options: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Return whether options, variables or files lead an engine to another machine, or to an unknown place."""
    if engine == DOCKER:
        return _is_elsewhere_for_docker(options, environment)
    service = find_service(options, environment) if engine == PODMAN else None
    return service is not None and service.is_other_machine


def find_service(options: Sequence[str], environment: Mapping[str, str]) -> EngineAddress | None:
    """Return the address of the service that starts Podman's containers; None if Podman starts them itself."""
    given = dict(own_options(options))
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


def find_context(options: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return the context that `docker` uses; "" for the default one, or if an address overrides the context."""
    chosen = _last(options, "--context", "-c")
    if not chosen and _find_docker_host(options, environment) is None:
        written = texts_at(_read(options, environment, "config.json")).get("currentContext", "")
        chosen = environment.get(CONTEXT) or written
    return "" if chosen in (None, USUAL_CONTEXT) else chosen


def read_context(name: str, options: Sequence[str], environment: Mapping[str, str]) -> EngineAddress | None:
    """Return the address in a Docker context; None if the context cannot be read or has none."""
    # Imported here because few users have contexts.
    from hashlib import sha256

    # A word of the command line may have bytes that are not UTF-8.
    digest = sha256(name.encode(errors="surrogatepass")).hexdigest()
    found = _read(options, environment, f"contexts/meta/{digest}/meta.json")
    host = texts_at(found, "Endpoints", "docker").get("Host", "")
    return parse_address(host) if host else None


class Endpoint(Value):
    """Where `docker` looks for its engine; empty for the usual socket.

    `address` has no user name, and is "" for a context that does not exist. After the command `undo`, `docker` talks to
    the usual engine.
    """

    address: str = ""
    undo: str = ""
    is_other_machine: bool = False


def find_endpoint() -> Endpoint:
    """Return where `docker` looks for its engine, according to this program's environment and the user's files."""
    if text := os.environ.get(ADDRESS):
        address = parse_address(text[:LONGEST_SHOWN_ADDRESS])
        undo = f"unset {ADDRESS}"
    elif context := find_context((), os.environ):
        # The address of a removed context is unknown.
        address = read_context(context, (), os.environ) or EngineAddress()
        undo = f"unset {CONTEXT}" if os.environ.get(CONTEXT) else "docker context use default"
    else:
        return Endpoint()
    return Endpoint(address=address.text[:LONGEST_SHOWN_ADDRESS], undo=undo, is_other_machine=address.is_other_machine)


def find_own_settings(environment: Mapping[str, str], engine: str = PODMAN, options: Sequence[str] = ()) -> str:
    """Return where a rootless engine has its caller's settings; "" for an engine of root, or if that is unknown.

    `options` are the words in front of the command.
    """
    return settings_of(environment) if os.geteuid() and leads_to_rootless(engine, options, environment) else ""


def settings_of(environment: Mapping[str, str]) -> str:
    """Return where rootless engines and other programs keep the settings of a user with this environment."""
    home = environment.get("HOME", "")
    return environment.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else "")


def leads_to_rootless(engine: str, options: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Return whether a command leads to a rootless engine. For Docker and Podman's service, the socket decides."""
    if engine == PODMAN:
        service = find_service(options, environment)
        return service is None or not PODMAN_ROOT_SOCKET.match(service.text)
    if engine != DOCKER:
        return False
    address = _find_docker_address(options, environment).text
    own = environment.get("XDG_RUNTIME_DIR")
    return bool(ROOTLESS_SOCKET.fullmatch(address)) or (bool(own) and address == f"unix://{own}/docker.sock")


def leads_to_podman(options: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Return whether Docker's client talks to Podman's usual socket."""
    return bool(PODMAN_SOCKET.fullmatch(_find_docker_address(options, environment).text))


def _is_elsewhere_for_docker(options: Sequence[str], environment: Mapping[str, str]) -> bool:
    return _find_docker_address(options, environment).is_other_machine


def _find_docker_address(options: Sequence[str], environment: Mapping[str, str]) -> EngineAddress:
    if context := find_context(options, environment):
        return read_context(context, options, environment) or UNKNOWN
    return parse_address(_find_docker_host(options, environment) or "")


def _find_docker_host(options: Sequence[str], environment: Mapping[str, str]) -> str | None:
    # The option overrides the variable even if it is empty, which means the default socket.
    host = _last(options, "--host", "-H")
    return environment.get(ADDRESS) or None if host is None else host


def _last(options: Sequence[str], *names: str) -> str | None:
    return next((value for name, value in reversed([*own_options(options)]) if name in names), None)


def _read(options: Sequence[str], environment: Mapping[str, str], name: str) -> dict[str, Any]:
    """Return a JSON file of the `docker` client's configuration directory; {} if it cannot be read."""
    home = environment.get("HOME", "")
    directory = _last(options, "--config") or environment.get("DOCKER_CONFIG") or (f"{home}/.docker" if home else "")
    try:
        return parse_object(read_plain_file(os.path.join(directory, name))[0].decode()) if directory else {}
    except (OSError, ValueError):
        return {}
