"""What an engine writes into a container's spec before the runtime sees it, as far as GPUs are concerned.

A test holds it against what Docker and Podman of several releases write for the same command lines.
"""

from __future__ import annotations

import re

from amd_ctk.explain.cdi_edits import CdiEdits, find_cdi_edits, is_cdi_name
from amd_ctk.explain.container import PODMAN
from amd_ctk.explain.engine_view import find_cdi_refusal, find_latest_cdi, find_version
from amd_ctk.explain.host_nodes import DRI, EVERY_ACCESS, find_mapped, find_nodes, parse_mapping
from amdgpu_discovery.device_nodes import KFD_PATH
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from amd_ctk.explain.container import Container
    from amdgpu_discovery.host import Host

RULE = re.compile(r"([acb]) ([0-9]+|\*):([0-9]+|\*) ([rwm]{1,3})")
# Of a user or group, in digits.
LONGEST_ID = 10


class EngineSpec(Value):
    """A spec, why the engine does not start the container, and whether hooks in it check the image and claim GPUs."""

    spec: dict[str, Any]
    refusals: tuple[ToolkitError, ...] = ()
    checks_image: bool = False
    is_claimed: bool = False


class _Given(Value):
    """Nodes and rules that a container is given, and what its engine finds wrong."""

    devices: tuple[dict[str, Any], ...] = ()
    rules: tuple[dict[str, Any], ...] = ()
    refusals: tuple[ToolkitError, ...] = ()


def build_spec(container: Container, host: Host) -> EngineSpec:
    """Return the spec that an engine would hand to the runtime."""
    given = _give_nodes(container, host)
    cdi, refusals = _find_cdi(container, host)
    devices = _with_cdi(given.devices, cdi)
    rules = [
        {"allow": container.privileged, "access": "rwm"},
        *given.rules,
        *(_rule(node, node["access"]) for edits in cdi for node in edits.nodes),
    ]
    variables = [entry for edits in cdi for entry in edits.environment]
    namespace = container.user_namespace not in ("", "host")
    spec = {
        "process": {
            "env": _joined(container.variables, variables),
            "capabilities": {"bounding": _capabilities(container)},
            "user": _user(container),
        },
        "linux": {
            "devices": devices,
            "resources": {"devices": rules},
            "namespaces": [{"type": "user"}] if namespace else [],
        },
    }
    checks_image = any(edits.checks_image for edits in cdi)
    is_claimed = any(edits.is_claimed for edits in cdi)
    return EngineSpec(
        spec=spec, refusals=(*given.refusals, *refusals), checks_image=checks_image, is_claimed=is_claimed
    )


def _capabilities(container: Container) -> list[str]:
    every = container.privileged or not {"ALL", "SYS_ADMIN"}.isdisjoint(container.capabilities)
    return ["CAP_SYS_ADMIN"] if every else []


def _user(container: Container) -> dict[str, Any]:
    """Return the user and the groups as far as they are numbers; which numbers names have is in the image."""
    uid, _, gid = container.user.partition(":")
    found: dict[str, Any] = {"uid": number_of_id(uid)} if number_of_id(uid) is not None else {}
    if number_of_id(gid or "x") is not None or uid in ("", "root", "0"):
        found["gid"] = number_of_id(gid)
    groups = [number for number in map(number_of_id, container.groups) if number is not None]
    return {**found, "additionalGids": groups} if groups else found


def number_of_id(word: str) -> int | None:
    """Return the number that a user or group is, None for a name that only the image knows."""
    if word in ("", "root"):
        return 0
    return int(word) if word.isascii() and word.isdecimal() and len(word) <= LONGEST_ID else None


def _give_nodes(container: Container, host: Host) -> _Given:
    """Return the nodes of the host and the rules that a container is given without CDI."""
    asked = [device for device in container.devices if not is_cdi_name(device)]
    if container.privileged:
        return _give_every_node(asked, container.engine, host)
    given = _Given()
    for device in asked:
        given = _add_device(given, device, container.engine, host)
    for rule in container.device_rules:
        given = _add_rule(given, rule, container.engine)
    return given


def _give_every_node(asked: Iterable[str], engine: str, host: Host) -> _Given:
    """Return all nodes of GPUs, to which a privileged container's one rule opens it, and those under other names.

    Podman 4 gives a privileged container no node under another name.
    """
    nodes = [node for path in (KFD_PATH, DRI) for node in find_nodes(path, host)]
    mappings = (parse_mapping(device, engine) for device in asked)
    moved = [mapping for mapping in mappings if mapping.source != mapping.target]
    if moved and engine == PODMAN and () < find_version(engine, host) < (5,):
        moved = []
    return _Given(devices=(*nodes, *(node for mapping in moved for node in find_mapped(mapping, engine, host))))


def _add_device(given: _Given, asked: str, engine: str, host: Host) -> _Given:
    mapping = parse_mapping(asked, engine)
    nodes = find_mapped(mapping, engine, host)
    if not nodes:
        refusal = ToolkitError(f"--device {mapping.source}: this host has no such device")
        return given.replace(refusals=(*given.refusals, refusal))
    paths = {node["path"] for node in nodes} if engine == PODMAN else set()
    kept = (device for device in given.devices if device["path"] not in paths)
    rules = (_rule(node, mapping.access) for node in nodes)
    return given.replace(devices=(*kept, *nodes), rules=(*given.rules, *rules))


def _add_rule(given: _Given, text: str, engine: str) -> _Given:
    """Add a rule as behind --device-cgroup-rule; for a * Docker writes -1, and Podman nothing."""
    found = RULE.fullmatch(text)
    if not found:
        refusal = ToolkitError(f"--device-cgroup-rule {text!r}: this is not a rule", hint="write it as 'c 226:* rwm'")
        return given.replace(refusals=(*given.refusals, refusal))
    kind, *numbers, access = found.groups()
    read = {key: -1 if word == "*" else int(word) for key, word in zip(("major", "minor"), numbers, strict=True)}
    named = {key: number for key, number in read.items() if number >= 0 or engine != PODMAN}
    return given.replace(rules=(*given.rules, {"allow": True, "type": kind, **named, "access": access}))


def _rule(node: dict[str, Any], access: str = EVERY_ACCESS) -> dict[str, Any]:
    return {"allow": True, "type": node["type"], "major": node["major"], "minor": node["minor"], "access": access}


def _find_cdi(container: Container, host: Host) -> tuple[list[CdiEdits], list[ToolkitError]]:
    found: list[CdiEdits] = []
    refusals: list[ToolkitError] = []
    names = [*filter(is_cdi_name, container.devices)]
    refusal = find_cdi_refusal(container.engine, host) if names else None
    if refusal:
        return [], [refusal]
    latest = find_latest_cdi(container.engine, host) if names else ""
    for asked in names:
        try:
            found.append(find_cdi_edits(asked, host, latest=latest))
        except ToolkitError as error:
            refusals.append(error)
    return found, refusals


def _with_cdi(devices: Iterable[dict[str, Any]], cdi: Iterable[CdiEdits]) -> list[dict[str, Any]]:
    """Return the nodes with those of CDI devices, each of which replaces the ones at its path."""
    added = {node["path"]: {key: node[key] for key in node if key != "access"} for edits in cdi for node in edits.nodes}
    return [*(device for device in devices if device["path"] not in added), *added.values()]


def _joined(environment: Iterable[str], more: Iterable[str]) -> list[str]:
    """Return an environment with the variables of CDI devices, which replace those of their names."""
    later = {entry.partition("=")[0]: entry for entry in more}
    return [*(entry for entry in environment if entry.partition("=")[0] not in later), *later.values()]
