"""Read a service of a Compose file as far as it decides about GPUs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from amd_ctk.explain.container import Container, ExplainError
from amd_ctk.explain.engine_spec import is_cdi_name
from amd_ctk.explain.host_nodes import EVERY_ACCESS
from amd_ctk.explain.run_words import read_env_file
from amd_device_spec.cdi_text import BrokenText, parse_spec
from amd_gpu_tracker.records.plain_text import one_line
from amdgpu_discovery.errors import reason
from amdgpu_discovery.plain_files import read_plain_file

# Compose: $NAME, ${NAME}, ${NAME:-default}, ${NAME-default}, ${NAME:?words}; $$ is a dollar. Words may have variables
# of their own, so that the innermost is replaced first.
VARIABLE = re.compile(r"\$(?:(\$)|(\w+)|\{(\w+)(?:(:?)([-?+])([^${}]*))?\})")
# What stands for a value while the words around it are read; no YAML has a zero byte.
KEPT = re.compile(r"\0(\d+)\0")
DEEPEST = 20
LARGEST_FILE = 4 * 1024 * 1024
# Of the Go library in Compose: a service may be called n or on.
COMPOSE_YAML = (1, 2)


def read_service(path: str, name: str, environment: Mapping[str, str]) -> Container:
    """Return a service of a Compose file as a container; ExplainError."""
    environment = {**_defaults_beside(path), **environment}
    service = _expand(_find_service(path, name), environment)
    variables = [*_from_files(path, service), *_environment_of(service, environment)]
    return Container(
        engine="docker",
        environment=tuple({entry.partition("=")[0]: entry for entry in variables}.values()),
        devices=(*_devices(service), *_reserved_by_name(service)),
        device_rules=tuple(map(str, _list(service.get("device_cgroup_rules")))),
        gpus=_gpus(service),
        runtime=str(service.get("runtime") or ""),
        privileged=service.get("privileged") in (True, "true"),
        capabilities=tuple(str(name).upper().removeprefix("CAP_") for name in _list(service.get("cap_add"))),
        user=str(service.get("user") or ""),
        groups=tuple(map(str, _list(service.get("group_add")))),
        user_namespace=str(service.get("userns_mode") or ""),
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
            hint="run 'docker compose config > whole.yaml', and explain whole.yaml",
        )
    known = one_line(", ".join(map(str, services))) if isinstance(services, dict) else "none"
    raise ExplainError(f"{path} has no service {name}", hint=f"it has {known}")


def _defaults_beside(path: str) -> dict[str, str]:
    """Return the variables of the file `.env` in the directory of a Compose file, which the caller's own override."""
    file = os.path.join(os.path.dirname(path), ".env")
    entries = read_env_file(file, is_plain=True) if os.path.exists(file) else ()
    pairs = (entry.partition("=") for entry in entries if "=" in entry)
    return {name.strip().removeprefix("export "): _unquoted(value.strip()) for name, _, value in pairs}


def _unquoted(value: str) -> str:
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if is_quoted else value


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


def _expand(value: Any, environment: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _expand(inner, environment) for key, inner in value.items()}
    if isinstance(value, list):
        return [_expand(inner, environment) for inner in value]
    return _expand_text(value, environment) if isinstance(value, str) else value


def _expand_text(text: str, environment: Mapping[str, str]) -> str:
    """Replace variables from the inside out: what one stands for is not looked at again."""
    values: list[str] = []

    def keep(match: re.Match[str]) -> str:
        values.append(_restored(_value_of(match, environment), values))
        return f"\0{len(values) - 1}\0"

    for _ in range(DEEPEST):
        text, replaced = VARIABLE.subn(keep, text)
        if not replaced:
            break
    return _restored(text, values)


def _restored(text: str, values: Sequence[str]) -> str:
    by_number = dict(enumerate(values))
    # A file may have zero bytes of its own.
    return KEPT.sub(lambda match: by_number.get(int(match[1]), match[0]), text)


def _value_of(match: re.Match[str], environment: Mapping[str, str]) -> str:
    dollar, plain, braced, colon, sign, words = match.groups()
    if dollar:
        return "$"
    name = plain or braced
    value = environment.get(name, "")
    if sign == "?" and not value and (colon or name not in environment):
        raise ExplainError(f"required variable {name} is missing a value: {one_line(words)}")
    is_given = bool(value) if colon else name in environment
    if sign == "+":
        return words if is_given else ""
    return words if sign == "-" and not is_given else value


def _from_files(path: str, service: dict[str, Any]) -> Iterator[str]:
    for entry in _list(service.get("env_file")):
        given = entry if isinstance(entry, dict) else {"path": entry}
        file = os.path.join(os.path.dirname(path), str(given.get("path", "")))
        if given.get("required") is not False or os.path.exists(file):
            yield from read_env_file(file, is_plain=True)


def _environment_of(service: dict[str, Any], environment: Mapping[str, str]) -> Iterator[str]:
    given = service.get("environment")
    entries = (
        [str(name) if value is None else f"{name}={value}" for name, value in given.items()]
        if isinstance(given, dict)
        else map(str, _list(given))
    )
    for entry in entries:
        if "=" in entry:
            yield entry
        else:
            # Without a value here it takes the image's away.
            yield f"{entry}={environment[entry]}" if entry in environment else entry


def _devices(service: dict[str, Any]) -> Iterator[str]:
    """Yield what Compose passes to Docker, which cleans no path of it: of several for one target the last."""
    mappings = map(_mapping, _list(service.get("devices")))
    for target, (source, access) in {target: (source, access) for source, target, access in mappings}.items():
        yield source if is_cdi_name(source) else f"{source}:{target}:{access}"


def _mapping(device: object) -> tuple[str, str, str]:
    """Return source, target and access of a device; ExplainError where Compose refuses it."""
    if not isinstance(device, dict):
        source, target, access = [*str(device).split(":", 2), "", ""][:3]
        return source, target or source, access or EVERY_ACCESS
    source, target = str(device.get("source", "")), str(device.get("target") or "")
    if not target:
        raise ExplainError(
            f"the device {one_line(source)} has no target, which Compose requires", hint="write 'target:' below it"
        )
    # Only the short form has a default: without it here nobody may open the node.
    return source, target, str(device.get("permissions") or "")


def _reserved_by_name(service: dict[str, Any]) -> Iterator[str]:
    for wanted in _reserved(service):
        if wanted.get("driver") == "cdi":
            yield from map(str, _list(wanted.get("device_ids")))


def _gpus(service: dict[str, Any]) -> tuple[str, ...]:
    """Return what Docker makes of `gpus:` and of reserved devices, as behind each `--gpus`."""
    return tuple(_request(wanted) for wanted in _reserved(service) if wanted.get("driver") != "cdi")


def _request(reserved: dict[str, Any]) -> str:
    if ids := _list(reserved.get("device_ids")):
        return f"device={','.join(map(str, ids))}"
    return str(reserved.get("count", "all"))


def _reserved(service: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the requests for devices in the order in which Compose passes them: of variables the last counts."""
    found: Any = service
    for key in ("deploy", "resources", "reservations", "devices"):
        found = found.get(key) if isinstance(found, dict) else None
    gpus = service.get("gpus")
    return [*_objects(found), *([{"count": gpus}] if isinstance(gpus, str) else _objects(gpus))]


def _objects(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in _list(value) if isinstance(entry, dict)]


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [] if value is None else [value]
