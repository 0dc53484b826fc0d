"""Which engine does the `docker` command talk to, and who said so?"""

from __future__ import annotations

import os
from typing import Any

from amd_ctk.explain.running import SECONDS
from amd_ctk.programs import ask
from amdgpu_discovery.value import Value

THIS_MACHINE = ("localhost", "127.0.0.1", "[::1]")
LONGEST = 200
ADDRESS = "DOCKER_HOST"
CONTEXT = "DOCKER_CONTEXT"


class Endpoint(Value):
    """Where `docker` looks for its engine; all "" where that is the usual socket.

    `address` is without a user's name, "" for a context that does not exist; `undo` is the command after which `docker`
    talks to the usual engine.
    """

    address: str = ""
    undo: str = ""
    is_other_machine: bool = False


def find_endpoint(info: dict[str, Any], *, may_ask: bool) -> Endpoint:
    """Return the endpoint of what `docker info` says, {} where it says nothing; then `docker` is asked if it may be."""
    if os.environ.get(ADDRESS):
        return _parse(os.environ[ADDRESS], f"unset {ADDRESS}")
    context = _find_context(info) if info or may_ask else ""
    if context in ("", "default"):
        return Endpoint()
    words = ["docker", "context", "inspect", "--format", "{{.Endpoints.docker.Host}}", "--", context]
    undo = f"unset {CONTEXT}" if os.environ.get(CONTEXT) else "docker context use default"
    return _parse(ask(words, seconds=SECONDS).output, undo)


def _find_context(info: dict[str, Any]) -> str:
    client = info.get("ClientInfo")
    context = client.get("Context") if isinstance(client, dict) else None
    if not info:
        # That is a context that was removed.
        context = ask(["docker", "context", "show"], seconds=SECONDS).output.strip()[:LONGEST]
    return context if isinstance(context, str) else ""


def _parse(endpoint: str, undo: str) -> Endpoint:
    scheme, separator, rest = endpoint[:LONGEST].strip().partition("://")
    # A password may have any of these.
    address = rest.rpartition("@")[2].partition("/")[0]
    host = address if address.endswith("]") else address.rpartition(":")[0] or address
    if scheme in ("unix", "fd"):
        return Endpoint(address=f"{scheme}://{rest}", undo=undo)
    shown = f"{scheme}://{address}" if separator and address else ""
    return Endpoint(address=shown, undo=undo, is_other_machine=bool(shown) and host not in THIS_MACHINE)
