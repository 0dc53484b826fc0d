"""Configure an engine to use the proxy in place of a registry, or undo that.

The proxy is not configured as a mirror: if a mirror refuses, an engine asks the registry itself and takes the first
image of the index.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from amd_ctk.configuration.apply import Target, find_target
from amd_ctk.configuration.edit import Edit
from amd_ctk.configuration.engine import Engine
from amd_ctk.configuration.ledger import Changes, Ledger, ledger_directory, remove_empty_tables, set_keys, take_back
from amd_ctk.engines.containerd import CONTAINERD
from amd_ctk.engines.podman import PODMAN
from amdgpu_discovery.command_line.document import Document, DocumentError, KeyPath
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_gpu_images import Upstream

# Later files replace entries for the same registry in earlier ones; containers-registries.conf.d(5).
PODMAN_FILE = "/etc/containers/registries.conf.d/99-amd-images.conf"
# nerdctl reads this directory, and CRI does if `config_path` names it.
CONTAINERD_DIRECTORY = "/etc/containerd/certs.d"
COMMENT = "# Images that fit the GPUs; remove with 'amd-ctk runtime configure --runtime={} --images --remove'.\n"
Keys = list[tuple[KeyPath, Any]]


class NoProxySetting(ToolkitError):
    """An engine has no setting for the proxy."""

    exit_code = 2


def plan_images(host: Host, engine: str, environment: Mapping[str, str], *, remove: bool) -> list[tuple[Target, Edit]]:
    """Return the files that configure an engine for the proxy, with their edits; ToolkitError."""
    if engine not in ("podman", "containerd"):
        hint = (
            "pull 127.0.0.1:PORT/NAME in place of REGISTRY/NAME" if engine == "docker" else "use podman or containerd"
        )
        raise NoProxySetting(f"{engine} has no setting that puts a proxy in the place of a registry", hint=hint)
    upstreams = [] if remove else _read_upstreams(host)
    if engine == "podman":
        return [_plan(host, PODMAN, PODMAN_FILE, _podman_keys(upstreams))]
    keys = {f"{CONTAINERD_DIRECTORY}/{each.registry}/hosts.toml": _containerd_keys(each) for each in upstreams}
    known = Ledger(ledger_directory(host, environment)).paths()
    for path in known:
        if path.startswith(f"{CONTAINERD_DIRECTORY}/"):
            keys.setdefault(path, [])
    return [_plan(host, CONTAINERD, path, keys[path]) for path in sorted(keys)]


def _read_upstreams(host: Host) -> list[Upstream]:
    from amd_ctk.companions import IMAGE_READER, require

    require(IMAGE_READER)
    from amd_gpu_images import read_upstreams

    return read_upstreams(host)


def _podman_keys(upstreams: list[Upstream]) -> Keys:
    """Return the keys that put the proxy in a registry's place and disable TLS, also for `podman login`."""
    places = [{"prefix": each.registry, "location": each.location, "insecure": True} for each in upstreams]
    tables = [*places, *({"location": each.location, "insecure": True} for each in upstreams)]
    return [(("registry",), tables)] if tables else []


def _containerd_keys(upstream: Upstream) -> Keys:
    """Return the proxy as the first server (`host`; containerd 1.6 does not accept a file without it) and the last."""
    url = f"http://{upstream.location}"
    return [(("server",), url), (("host", url), {"capabilities": ["pull", "resolve"]})]


def _plan(host: Host, engine: Engine, path: str, keys: Keys) -> tuple[Target, Edit]:
    target = find_target(host, engine.replace(new_text=COMMENT.format(engine.name)), host.path(path))
    return target, partial(_edit, keys=keys)


def _edit(document: Document, changes: Changes, *, keys: Keys) -> tuple[Document, Changes]:
    """Set these keys, and undo the toolkit's earlier changes of other keys."""
    for change in reversed(changes.keys):
        if change.path not in dict(keys):
            document, changes = take_back(document, change.path, changes)
    document, changes = remove_empty_tables(*set_keys(document, keys, changes))
    servers = document.get(("host",))
    if keys and isinstance(servers, dict) and len(servers) > 1:
        raise DocumentError("it has servers that containerd asks first", hint="remove its other [host] tables")
    return document, changes
