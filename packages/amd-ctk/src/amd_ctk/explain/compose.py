"""Read the parts of a Compose service that decide about GPUs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from amd_ctk.engine_words import DOCKER
from amd_ctk.explain.compose_program import (
    Resolved,
    as_list,
    as_version_reads,
    find_remote,
    is_of_another,
    resolve,
)
from amd_ctk.explain.compose_variables import expand_text, finder, read_variables
from amd_ctk.explain.container import Container, ExplainError, find_own_settings
from amd_ctk.explain.host_nodes import EVERY_ACCESS, is_cdi_name
from amd_ctk.json_parts import object_at
from amd_device_spec.cdi_text import BrokenText, parse_spec
from amdgpu_discovery.errors import reason
from amdgpu_discovery.host import Host
from amdgpu_discovery.plain_files import read_plain_file
from amdgpu_discovery.plain_text import one_line

LARGEST_FILE = 4 * 1024 * 1024
# The YAML version of the Go library in Compose: a service may be called n or on.
COMPOSE_YAML = (1, 2)
WHOLE = "run 'docker compose config > whole.yaml', and explain whole.yaml"
# The namespaces of the host that a service can share, and their keys.
SHARED = {"pid": "pid", "network": "network_mode", "ipc": "ipc"}
NOT_ASKED = "{path} belongs to another user, so it was read without asking Docker Compose"


def read_service(path: str, name: str, environment: Mapping[str, str], host: Host) -> Container:
    """Return a service of a Compose file as a container, as this machine's Compose reads it; ExplainError."""
    _refuse_remotes(path)
    own = find_own_settings(environment, DOCKER)
    resolved = resolve(path, host)
    if resolved and not resolved.late:
        return _describe_resolved(resolved, path, name).replace(own_settings=own)
    environment = {**_defaults_beside(path, environment), **environment}
    service = _expand(_find_service(path, name), finder(environment))
    variables = [*_from_files(path, service, environment), *_environment_of(service, environment)]
    notes = (NOT_ASKED.format(path=path),) if host.is_this_machine and is_of_another(path) else ()
    late = resolved.late if resolved else ""
    return _describe(service, variables).replace(
        notes=notes, own_settings=own, is_engine_silent=resolved is not None, late=late
    )


def _refuse_remotes(path: str) -> None:
    """Raise ExplainError for a file with parts on other machines, which nothing fetches for an explanation."""
    try:
        remote = find_remote(_read(path))
    except ExplainError:
        # Compose may be able to read what this parser cannot.
        return
    if remote:
        raise ExplainError(f"{path} has a part at {one_line(remote)}, which is not fetched here", hint=WHOLE)


def _describe_resolved(resolved: Resolved, path: str, name: str) -> Container:
    service = resolved.services.get(name)
    if not isinstance(service, dict):
        raise _without_service(path, name, resolved.services)
    read = as_version_reads(_expand(service, finder()), resolved.version)
    described = _describe(read.service, _environment_of(read.service, {}))
    return described.replace(refusals=read.refusals, problems=read.problems)


def _describe(service: dict[str, Any], variables: Iterable[str]) -> Container:
    reserved = _reserved(service)
    by_name = [wanted for wanted in reserved if wanted.get("driver") == "cdi"]
    return Container(
        engine="docker",
        environment=tuple({entry.partition("=")[0]: entry for entry in variables}.values()),
        devices=(*_devices(service), *(str(name) for one in by_name for name in as_list(one.get("device_ids")))),
        device_rules=tuple(map(str, as_list(service.get("device_cgroup_rules")))),
        gpus=tuple(_request(wanted) for wanted in reserved if wanted.get("driver") != "cdi"),
        runtime=str(service.get("runtime") or ""),
        privileged=service.get("privileged") in (True, "true"),
        capabilities=tuple(str(name).upper().removeprefix("CAP_") for name in as_list(service.get("cap_add"))),
        user="" if service.get("user") is None else str(service["user"]),
        groups=tuple(map(str, as_list(service.get("group_add")))),
        user_namespace=str(service.get("userns_mode") or ""),
        host_namespaces=tuple(name for name, key in SHARED.items() if service.get(key) == "host"),
        image=str(service.get("image") or ""),
    )


def _find_service(path: str, name: str) -> dict[str, Any]:
    tree = _read(path)
    services = tree.get("services")
    service = services.get(name) if isinstance(services, dict) else None
    if isinstance(service, dict) and "extends" not in service:
        return service
    if isinstance(service, dict) or "include" in tree:
        other = "extends another service" if isinstance(service, dict) else "may be in an included file"
        raise ExplainError(
            f"the service {name} of {path} {other}, which is not read here",
            hint=WHOLE,
        )
    raise _without_service(path, name, services)


def _without_service(path: str, name: str, services: object) -> ExplainError:
    known = one_line(", ".join(map(str, services))) if isinstance(services, dict) else "none"
    return ExplainError(f"{path} has no service {name}", hint=f"it has {known}")


def _defaults_beside(path: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the file `.env` beside a Compose file; the caller's own override them."""
    file = os.path.join(os.path.dirname(path), ".env")
    return read_variables(file, finder(environment)) if os.path.exists(file) else {}


def _read(path: str) -> dict[str, Any]:
    try:
        tree = parse_spec(read_plain_file(path, largest=LARGEST_FILE)[0], yaml_version=COMPOSE_YAML).tree
    except OSError as error:
        raise ExplainError(f"{path} cannot be read: {reason(error)}") from error
    except BrokenText as error:
        raise ExplainError(f"{path}:{error.line}:{error.column}: {error.message}") from error
    if not isinstance(tree, dict):
        raise ExplainError(f"{path} is not a Compose file", hint="it has no services")
    return tree


def _expand(value: Any, find: Callable[[str], str | None]) -> Any:
    if isinstance(value, dict):
        return {key: _expand(inner, find) for key, inner in value.items()}
    if isinstance(value, list):
        return [_expand(inner, find) for inner in value]
    return expand_text(value, find) if isinstance(value, str) else value


def _from_files(path: str, service: dict[str, Any], environment: Mapping[str, str]) -> Iterator[str]:
    found: dict[str, str] = {}
    for entry in as_list(service.get("env_file")):
        given = entry if isinstance(entry, dict) else {"path": entry}
        file = os.path.join(os.path.dirname(path), str(given.get("path", "")))
        if given.get("required") is not False or os.path.exists(file):
            # A later file can refer to variables of an earlier one.
            found |= read_variables(file, finder(dict(found), environment))
    yield from (f"{name}={value}" for name, value in found.items())


def _environment_of(service: dict[str, Any], environment: Mapping[str, str]) -> Iterator[str]:
    given = service.get("environment")
    entries = (
        [str(name) if value is None else f"{name}={value}" for name, value in given.items()]
        if isinstance(given, dict)
        else map(str, as_list(given))
    )
    for entry in entries:
        if "=" in entry:
            yield entry
        else:
            # Without a value here, the entry removes the image's variable.
            yield f"{entry}={environment[entry]}" if entry in environment else entry


def _devices(service: dict[str, Any]) -> Iterator[str]:
    """Yield the devices that Compose passes to Docker, with paths as written; the last one of a target counts."""
    mappings = map(_mapping, as_list(service.get("devices")))
    for target, (source, access) in {target: (source, access) for source, target, access in mappings}.items():
        yield source if is_cdi_name(source) else f"{source}:{target}:{access}"


def _mapping(device: object) -> tuple[str, str, str]:
    """Return source, target and access of a device; ExplainError if Compose refuses it."""
    if not isinstance(device, dict):
        source, target, access = [*str(device).split(":", 2), "", ""][:3]
        return source, target or source, access or EVERY_ACCESS
    source, target = str(device.get("source", "")), str(device.get("target") or "")
    if not target:
        raise ExplainError(
            f"the device {one_line(source)} has no target, which Compose requires", hint="write 'target:' below it"
        )
    # Only the short form has a default. Without permissions, no process may open the node.
    return source, target, str(device.get("permissions") or "")


def _request(reserved: dict[str, Any]) -> str:
    """Return what Docker makes of `gpus:` and of a reserved device, as after `--gpus`."""
    if ids := as_list(reserved.get("device_ids")):
        return f'"device={",".join(map(str, ids))}"'
    count = reserved.get("count", "all")
    # Compose itself writes all as -1.
    return "all" if count == -1 else str(count)


def _reserved(service: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the requests for devices in the order in which Compose passes them, because the last variable counts."""
    found = object_at(service, "deploy", "resources", "reservations").get("devices")
    gpus = service.get("gpus")
    return [*_objects(found), *([{"count": gpus}] if isinstance(gpus, str) else _objects(gpus))]


def _objects(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in as_list(value) if isinstance(entry, dict)]
