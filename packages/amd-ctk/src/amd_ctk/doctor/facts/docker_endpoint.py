"""Which engine does the `docker` command talk to?"""

from __future__ import annotations

import os

from amd_ctk.explain.running import SECONDS
from amd_ctk.programs import ask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

THIS_MACHINE = ("localhost", "127.0.0.1", "[::1]")
LONGEST = 200


def find_other_machine(info: dict[str, Any]) -> str:
    """Return the endpoint of `docker info` where it is another machine's, without a user's name; "" for a socket."""
    endpoint = os.environ.get("DOCKER_HOST") or _endpoint_of_context(info)
    scheme, separator, rest = endpoint[:LONGEST].strip().partition("://")
    address = rest.partition("/")[0].rpartition("@")[2]
    host = address if address.endswith("]") else address.rpartition(":")[0] or address
    is_here = scheme in ("unix", "fd") or host in THIS_MACHINE
    return f"{scheme}://{address}" if separator and address and not is_here else ""


def _endpoint_of_context(info: dict[str, Any]) -> str:
    # "default" is the usual socket, or DOCKER_HOST.
    client = info.get("ClientInfo")
    context = client.get("Context") if isinstance(client, dict) else None
    if not isinstance(context, str) or context in ("", "default"):
        return ""
    words = ["docker", "context", "inspect", "--format", "{{.Endpoints.docker.Host}}", "--", context]
    return ask(words, seconds=SECONDS).output
