"""Read the parts of a Compose service that decide about GPUs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from amd_ctk.engines.engine_address import find_own_settings, leads_to_podman
from amd_ctk.engines.engine_words import DOCKER
from amd_ctk.explain.compose_program import (
    Resolved,
    as_list,
    as_version_reads,
    find_remote,
    is_of_another,
    resolve,
)
from amd_ctk.explain.compose_variables import expand_text, finder, read_variables
from amd_ctk.explain.container import Container, ExplainError
from amd_ctk.explain.host_nodes import EVERY_ACCESS, is_cdi_name
from amd_ctk.explain.run_words import container_of
from amd_device_spec.cdi.text import BrokenText, parse_spec
from amdgpu_discovery.command_line.json_parts import object_at
from amdgpu_discovery.errors import reason
from amdgpu_discovery.host import Host
from amdgpu_discovery.untrusted.plain_files import read_plain_file
from amdgpu_discovery.untrusted.plain_text import one_line

LARGEST_COMPOSE_FILE = 4 * 1024 * 1024
# The YAML version of the Go library in Compose: a service may be called n or on.
COMPOSE_YAML = (1, 2)
WHOLE = "run 'docker compose config > whole.yaml', and explain whole.yaml"
# The options of `docker run` that say the same as keys of a service.
OPTIONS = {
    "device-cgroup-rule": "device_cgroup_rules",
    "runtime": "runtime",
    "cap-add": "cap_add",
    "user": "user",
    "group-add": "group_add",
    "userns": "userns_mode",
    "pid": "pid",
    "network": "network_mode",
    "ipc": "ipc",
}
SHARED = ("pid", "network", "ipc")
NOT_ASKED = "{path} belongs to another user, so it was read without asking Docker Compose"


def read_service(path: str, name: str, environment: Mapping[str, str], host: Host) -> Container:
    """Return a service of a Compose file as a container, as this machine's Compose reads it; ExplainError."""
    _refuse_remotes(path)
    container = _read_service(path, name, environment, host)
    return container.replace(is_podman_api=leads_to_podman((), environment))


def _read_service(path: str, name: str, environment: Mapping[str, str], host: Host) -> Container:
    own = find_own_settings(environment, DOCKER)
    resolved = resolve(path, host)
    if resolved and not resolved.late:
        return _describe_resolved(resolved, path, name).replace(own_settings=own)
    environment = {**_defaults_beside(path, environment), **environment}
    service = _expand(_find_service(path, name), finder(environment))
    variables = [*_from_files(path, service, environment), *_environment_of(service, environment)]
    notes = (NOT_ASKED.format(path=path),) if host.is_this_machine and is_of_another(path) else ()
    late = resolved.late if resolved else ""
    described = _describe(service, variables)
    return described.replace(
        notes=(*notes, *described.notes), own_settings=own, is_engine_silent=resolved is not None, late=late
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
    """Return the container of a service, by the code that reads `docker run`: Compose gives Docker the same words."""
    image = str(service.get("image") or ("that Compose builds" if service.get("build") else ""))
    return container_of(DOCKER, _as_options(service), str(service.get("image") or "built")).replace(
        image=image,
        environment=tuple({entry.partition("=")[0]: entry for entry in variables}.values()),
        devices=tuple(_devices(service)),
        notes=tuple(_notes_of(service)),
    )


def _as_options(service: dict[str, Any]) -> dict[str, list[str]]:
    """Return the options of `docker run` that say the same as a service. Devices have another syntax here."""
    found = {option: list(map(str, as_list(service.get(key)))) for option, key in OPTIONS.items()}
    # Another service's namespace is that of a container.
    shared = {option: [value for value in found[option] if not value.startswith("service:")] for option in SHARED}
    requests = {"gpus": list(map(_request, _reserved(service))), "volume": list(_volumes(service))}
    privileged = {"privileged": ["true"] if service.get("privileged") in (True, "true") else []}
    every = {**found, **shared, **requests, **privileged}
    return {option: values for option, values in every.items() if values}


def _find_service(path: str, name: str) -> dict[str, Any]:
    tree = _read(path)
    services = tree.get("services")
    service = services.get(name) if isinstance(services, dict) else None
    if isinstance(service, dict) and "extends" not in service:
        return service
    if isinstance(service, dict) or "include" in tree:
        other = "extends another service" if isinstance(service, dict) else "may be in an included file"
        problem = f"the service {name} of {path} {other}, which is not read here"
        raise ExplainError(problem, hint=WHOLE)
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
        tree = parse_spec(read_plain_file(path, largest=LARGEST_COMPOSE_FILE)[0], yaml_version=COMPOSE_YAML).tree
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
    if isinstance(given, dict):
        given = [str(name) if value is None else f"{name}={value}" for name, value in given.items()]
    for entry in map(str, as_list(given)):
        if "=" in entry:
            yield entry
        else:
            # Without a value here, the entry removes the image's variable.
            yield f"{entry}={environment[entry]}" if entry in environment else entry


def _devices(service: dict[str, Any]) -> Iterator[str]:
    """Yield the devices that Compose passes to Docker, with paths as written; the last one of a target counts."""
    mappings = map(_mapping, as_list(service.get("devices")))
    for target, (source, access) in {target: (source, access) for source, target, access in mappings}.items():
        yield source if is_cdi_name(source) else f"{_from_root(source)}:{_from_root(target)}:{access}"


def _from_root(path: str) -> str:
    """Return where a relative path of a node leads: dockerd, as a service, and a container begin at /."""
    return f"/{path}" if path.startswith("dev/") else path


def _notes_of(service: dict[str, Any]) -> Iterator[str]:
    for source in (_mapping(device)[0] for device in as_list(service.get("devices"))):
        if source.startswith("dev/") and not is_cdi_name(source):
            shown = one_line(source)
            yield f"dockerd looks for the device {shown} in its own directory, / for a service: write /{shown}"


def _mapping(device: object) -> tuple[str, str, str]:
    """Return source, target and access of a device; ExplainError if Compose refuses it."""
    if not isinstance(device, dict):
        source, target, access = [*str(device).split(":", 2), "", ""][:3]
        return source, target or source, access or EVERY_ACCESS
    source, target = str(device.get("source", "")), str(device.get("target") or "")
    if not target:
        problem = f"the device {one_line(source)} has no target, which Compose requires"
        raise ExplainError(problem, hint="write 'target:' below it")
    # Only the short form has a default. Without permissions, no process may open the node.
    return source, target, str(device.get("permissions") or "")


def _volumes(service: dict[str, Any]) -> Iterator[str]:
    """Yield the directories and nodes of the host that a service mounts, as after `--volume`."""
    for volume in as_list(service.get("volumes")):
        if not isinstance(volume, dict):
            yield str(volume)
        elif volume.get("type") == "bind":
            yield f"{volume.get('source')}:{volume.get('target')}"


def _request(reserved: dict[str, Any]) -> str:
    """Return what Docker makes of `gpus:` and of a reserved device, as after `--gpus`."""
    ids = as_list(reserved.get("device_ids"))
    driver = str(reserved.get("driver") or "")
    count = reserved.get("count", None if "device_ids" in reserved else "all")
    capabilities = list(map(str, as_list(reserved.get("capabilities"))))
    asked = {"driver": driver, "device": ",".join(map(str, ids)), "capabilities": ",".join(capabilities)}
    if capabilities == ["gpu"]:
        del asked["capabilities"]
    parts = [f"{key}={value}" for key, value in asked.items() if value or key == "capabilities"]
    if count is not None:
        # Compose itself writes all as -1. Docker takes a count alone without its key.
        words = "all" if count == -1 else str(count)
        parts.append(f"count={words}" if parts else words)
    # As in one line of a CSV file.
    return ",".join(f'"{part}"' if "," in part or '"' in part else part for part in parts or ["count=0"])


def _reserved(service: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the requests for devices in the order in which Compose passes them, because the last variable counts."""
    found = object_at(service, "deploy", "resources", "reservations").get("devices")
    gpus = service.get("gpus", [])
    if gpus == "all":
        gpus = [{"count": "all"}]
    if not isinstance(gpus, list) or len(_objects(gpus)) < len(gpus):
        problem = f"Compose refuses gpus: {one_line(str(gpus))}"
        raise ExplainError(problem, hint="write gpus: all, or gpus: [{count: 1}]")
    return [*_objects(found), *map(_with_capability, gpus)]


def _with_capability(asked: dict[str, Any]) -> dict[str, Any]:
    """Return an entry of `gpus:` as Compose passes it on."""
    return {**asked, "capabilities": [*dict.fromkeys((*as_list(asked.get("capabilities")), "gpu"))]}


def _objects(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in as_list(value) if isinstance(entry, dict)]
