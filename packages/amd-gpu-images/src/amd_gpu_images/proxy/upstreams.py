"""Read which registry belongs to which port. The file belongs to root, so no request can name another registry."""

from __future__ import annotations

import re
from typing import Any

from amd_gpu_images.registries.registry_name import DOCKER_HUB
from amdgpu_discovery.command_line.document import DocumentError
from amdgpu_discovery.command_line.toml_document import TomlDocument
from amdgpu_discovery.errors import FileError, ToolkitError, reason
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

UPSTREAMS = "/etc/amd-container-toolkit/images.toml"
EXAMPLE = 'write a line for each registry, such as 505 = "registry.example"'
# The server of the registry that engines call docker.io.
HUB_ADDRESS = "registry-1.docker.io"
REGISTRY = re.compile(r"(?P<scheme>https?://)?(?P<address>[A-Za-z0-9][A-Za-z0-9.-]{0,252}(?::[0-9]{1,5})?)", re.ASCII)


class UpstreamError(ToolkitError):
    """The file of registries is missing or invalid, a port is unknown or in use, or an engine cannot use the proxy."""

    exit_code = 2


class Upstream(Value):
    """A registry: its name in engines, its server, and the loopback port in front of it."""

    registry: str
    address: str
    is_secure: bool
    port: int

    @property
    def url(self) -> str:
        """Return the scheme and server of the registry's URLs."""
        return f"{'https' if self.is_secure else 'http'}://{self.address}"

    @property
    def location(self) -> str:
        """Return the address that engines use in place of the registry.

        It is not localhost, which may also be ::1: there any user could listen on the port and receive credentials.
        """
        return f"127.0.0.1:{self.port}"


def read_upstreams(host: Host) -> list[Upstream]:
    """Return the registries in the file, sorted by port; UpstreamError, FileError."""
    try:
        text = host.read(UPSTREAMS).decode("utf-8", "replace")
    except FileNotFoundError as error:
        raise UpstreamError(f"{UPSTREAMS} does not exist", hint=EXAMPLE) from error
    except OSError as error:
        raise FileError(f"{UPSTREAMS} cannot be read: {reason(error)}") from error
    try:
        lines = TomlDocument(text).get(())
    except DocumentError as error:
        raise UpstreamError(f"{UPSTREAMS} is not TOML: {error.message}") from error
    if not isinstance(lines, dict) or not lines:
        raise UpstreamError(f"{UPSTREAMS} names no registry", hint=EXAMPLE)
    upstreams = sorted((parse_upstream(*line) for line in lines.items()), key=lambda each: each.port)
    if len({each.registry for each in upstreams}) < len(upstreams):
        raise UpstreamError(f"{UPSTREAMS} names a registry twice", hint="one port is enough for all its images")
    return upstreams


def parse_upstream(port: str, registry: Any) -> Upstream:
    """Parse one line of the file; UpstreamError."""
    match = REGISTRY.fullmatch(registry) if isinstance(registry, str) else None
    if match is None:
        raise UpstreamError(f"{UPSTREAMS}: {port} is not followed by the name of a registry", hint=EXAMPLE)
    if not (port.isascii() and port.isdecimal() and 1 <= int(port) <= 65535):
        raise UpstreamError(f"{UPSTREAMS}: {port} is not a port", hint=EXAMPLE)
    registry = match["address"]
    address = HUB_ADDRESS if registry == DOCKER_HUB else registry
    return Upstream(registry=registry, address=address, is_secure=match["scheme"] != "http://", port=int(port))


def find_upstream(host: Host, port: int) -> Upstream:
    """Return the registry that belongs to a port; UpstreamError."""
    for upstream in read_upstreams(host):
        if upstream.port == port:
            return upstream
    raise UpstreamError(f"{UPSTREAMS} names no registry for port {port}", hint=EXAMPLE)
